// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// expectFewReconciles makes sure that a ScaledJob which was created at this time is not reconciled more often than a
// backoff and resyncs allow. A loop would do so far more often.
func (s *scaledJob) expectFewReconciles(created time.Time) {
	s.t.Helper()
	const atOnce, perSecond = 50, 2
	s.Consistently(func() bool {
		allowed := atOnce + perSecond*time.Since(created).Seconds()
		return float64(s.Reconciles()) < allowed
	}).Should(BeTrue())
}

func TestRejectedTemplateIsReportedAndRetriedPatiently(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	bad, good, created := int32(-1), int32(1), time.Now()
	s.create(scene.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.BackoffLimit = &bad })
	s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionFalse, scaledjobv1.ReasonRejected)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonRejected)
	s.Expect(s.condition(scaledjobv1.ConditionTemplateValid)).To(ContainSubstring("spec.backoffLimit"))
	s.Eventually(s.events).WithArguments("TemplateRejected").Should(Equal(1))

	stop := s.pushOn()
	neighbour := s.another("neighbour")
	neighbour.create(scene.Polling(scene.Never), scene.AtMost(2))
	neighbour.Push(2)
	neighbour.expectJobsEver(2)
	s.expectFewReconciles(created)
	stop()

	s.Update(func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.BackoffLimit = &good
		scene.AtMost(3)(spec)
	})
	s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionTrue, scaledjobv1.ReasonAccepted)
	s.expectJobsEver(2 + 3)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
}

// jobCount is what a quota calls the number of Jobs.
const jobCount = scene.JobCount

// allowJobs makes a quota for Jobs that is in force.
func (s *scaledJob) allowJobs(count int64) *corev1.ResourceQuota {
	s.t.Helper()
	return must.Get(s.Limit(s.t.Context(), "jobs", map[corev1.ResourceName]int64{jobCount: count}))(s)
}

// The host of a Pod has the name of its Job and the index, which must be a DNS label. About three of four Jobs have a
// hash with as many digits as there can be.
func TestIndexedJobsOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"m", strings.Repeat("m", 48), strings.Repeat("m", 49), strings.Repeat("m", 63), strings.Repeat("9.", 31) + "m"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.Name = name
			s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) {
				spec.JobTemplate.Spec.CompletionMode = new(batchv1.IndexedCompletion)
				spec.JobTemplate.Spec.Completions, spec.JobTemplate.Spec.Parallelism = new(int32(100_000)), new(int32(2))
			})
			s.Push(12)
			s.expectJobsEver(12)
			s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionTrue, scaledjobv1.ReasonAccepted)
			var hosts []string
			for _, job := range s.jobs() {
				s.Expect(job.Name).To(And(Not(ContainSubstring(".")), HaveLen(len(s.jobs()[0].Name))))
				hosts = append(hosts, fmt.Sprintf("%s-0", job.Name), fmt.Sprintf("%s-1", job.Name))
			}
			s.Eventually(s.hosts).Should(ConsistOf(hosts))
		})
	}
}

// hosts are the host names of the Pods.
func (s *scaledJob) hosts() (names []string) {
	s.t.Helper()
	for _, pod := range s.pods() {
		names = append(names, pod.Spec.Hostname)
	}
	return names
}
