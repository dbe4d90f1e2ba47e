// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// preempt creates a Job of another owner that takes so much of the quota and comes before those of the ScaledJob, and
// returns when its Pod runs.
func (s *stage) preempt(cpus int64) *batchv1.Job {
	s.t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "urgent", Labels: queued(high)}, Spec: requesting(cpus),
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.Expect(s.API.Create(s.t.Context(), job)).To(Succeed())
	s.Eventually(s.podsOf).WithArguments(job).Should(ConsistOf(HaveField("Status.Phase", corev1.PodRunning)))
	return job
}

// complete has the Pod of a Job succeed.
func (s *stage) complete(job *batchv1.Job) {
	s.t.Helper()
	for _, pod := range s.podsOf(job) {
		s.Expect(cluster.Now(s.t.Context(), s.API, &pod, cluster.PodSucceedAfter)).To(Succeed())
	}
}

func (s *stage) podsOf(job *batchv1.Job) []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.API.List(s.t.Context(), &pods,
		client.InNamespace(s.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
	return pods.Items
}

// A Job that is preempted stays the Job of its message, wherever the message is meanwhile.
func TestPreemptedJobsKeepTheirMessages(t *testing.T) {
	skip.UnderShort(t, "the suite exactness suspends Jobs without Kueue")
	const jobs = 2
	for _, strategy := range []scaledjobv1.ScalingStrategyType{scaledjobv1.StrategyDefault, scaledjobv1.StrategyAccurate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			var changes []sjtest.Change
			if strategy == scaledjobv1.StrategyAccurate {
				changes = append(changes, s.accurate)
			}
			s.quota(jobs)
			s.create(changes...)
			s.Push(jobs)
			s.expectWorking(jobs)
			s.expectJobs(jobs)

			urgent := s.preempt(jobs)
			s.expectWorking(0)
			s.expectSuspended(jobs, jobs)
			s.expectLimit(metav1.ConditionTrue, scaledjobv1.ReasonJobsSuspended)
			s.expectJobs(jobs)
			s.Push(1)
			s.expectJobs(jobs + 1)
			s.expectSuspended(jobs+1, jobs+1)

			s.complete(urgent)
			s.expectWorking(jobs)
			s.expectSuspended(1, jobs+1)
			s.expectLimit(metav1.ConditionFalse, scaledjobv1.ReasonNotLimited)
			s.finishAll()
			s.expectDone(jobs + 1)
			s.Expect(s.beyond(jobs)).To(BeEmpty())
		})
	}
}

// A Job whose Workload is deactivated is never admitted again. It counts until somebody deletes it.
func TestAJobWhoseWorkloadIsDeactivatedIsReplacedWhenItIsDeleted(t *testing.T) {
	skip.UnderShort(t, "TestPreemptedJobsKeepTheirMessages and the suite why test the parts")
	t.Parallel()
	s := newStage(t)
	s.quota(quotaOf)
	s.create()
	s.Push(1)
	s.expectWorking(1)

	workloads := s.workloads()
	s.Expect(workloads).To(HaveLen(1))
	s.Expect(s.API.Patch(t.Context(), &workloads[0], client.RawPatch(types.MergePatchType, []byte(`{"spec":{"active":false}}`)))).To(Succeed())
	s.expectWorking(0)
	s.expectSuspended(1, 1)
	s.Expect(s.expectLimit(metav1.ConditionTrue, scaledjobv1.ReasonJobsSuspended)).To(ContainSubstring("deactivated"))
	s.expectJobs(1)

	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Jobs.Unfinished()[0]}}
	s.Expect(s.API.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	s.expectWorking(1)
	s.finishAll()
	s.Eventually(s.counted).Should(Equal(counts{Served: 1}), s.explain)
	s.Eventually(s.Jobs.Unfinished).Should(BeEmpty())
	s.expectJobs(2)
}
