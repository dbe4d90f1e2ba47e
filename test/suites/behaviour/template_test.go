// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// jobCount is what a quota calls the number of Jobs.
const jobCount = sjtest.JobCount

// allowJobs makes a quota for Jobs that is in force.
func (s *scaledJob) allowJobs(count int64) *corev1.ResourceQuota {
	s.t.Helper()
	return must.Get(s.Limit(s.t.Context(), "jobs", map[corev1.ResourceName]int64{jobCount: count}))(s)
}

// The host of a Pod has the name of its Job and the index, which must be a DNS label. About three of four Jobs have a
// hash with as many digits as there can be.
func TestIndexedJobsOfAnyName(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("9.", 31) + "m"
	names := []string{"m", strings.Repeat("m", 48), strings.Repeat("m", 49), strings.Repeat("m", 63), longest}
	for _, name := range skip.AllButNamed(t, names, func(name string) string { return name }, strings.Repeat("m", 49), longest) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.Name = name
			s.create(sjtest.Polling(sjtest.Never), func(spec *scaledjobv1.ScaledJobSpec) {
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
