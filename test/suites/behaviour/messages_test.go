// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// newWitnessedScaledJob returns a ScaledJob of the shared operator, with a watch of its Jobs, in a namespace that is
// deleted after the test.
func newWitnessedScaledJob(t *testing.T) *scaledJob {
	t.Helper()
	s := newScaledJobOf(t, shared.ControlPlane, shared.redis, newNamespace(t))
	s.Operator = shared.operator
	s.watch = watchJobs(t, s.Namespace)
	return s
}

// newNamespace returns a namespace that is deleted after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	return shared.Cluster.NewNamespace(t, "test")
}

// onceByEvents is a spec by which a Job has one Pod, which is not tried again, and the operator hears of messages by
// notifications alone.
func onceByEvents(spec *scaledjobv1.ScaledJobSpec) {
	spec.PollingIntervalSeconds = scene.Never
	spec.JobTemplate.Spec.BackoffLimit = new(int32)
	spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
}

// kubectl runs kubectl in the namespace and returns what it prints.
func (s *scaledJob) kubectl(args ...string) string {
	s.t.Helper()
	output, err := s.Cluster.Kubectl(s.t.Context(), append(args, "--namespace="+s.Namespace)...)
	s.Expect(err).NotTo(HaveOccurred())
	return output
}

// edit sets fields of the spec, and returns when the operator has acted on
// them.
func (s *scaledJob) edit(fields map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": fields})
	s.Expect(err).NotTo(HaveOccurred())
	s.kubectl("patch", "scaledjob", s.Name, "--type=merge", "--patch="+string(patch))
	s.awaitObserved()
}

// awaitObserved returns when the operator has acted on the current spec: it
// reports a generation after that.
func (s *scaledJob) awaitObserved() {
	s.t.Helper()
	generation := s.Get().Generation
	s.Eventually(s.Status).Should(HaveField("ObservedGeneration", BeNumerically(">=", generation)))
}

// settle returns after three more reconciles of the ScaledJob, which do what is
// still due.
func (s *scaledJob) settle() {
	s.t.Helper()
	const reconciles = 3
	for i := range reconciles {
		s.edit(map[string]any{"pollingIntervalSeconds": scene.Never - 1 - i})
	}
}

// remove takes a message off the queue.
func (s *scaledJob) remove() {
	s.t.Helper()
	s.Expect(s.redis.Client().RPop(s.t.Context(), s.Queue).Err()).To(Succeed())
}

// ownedJobs are the Jobs of the ScaledJob, as the API server has them.
func (s *scaledJob) ownedJobs() []batchv1.Job {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(s.API.List(s.t.Context(), &jobs, s.ours()...)).To(Succeed())
	return jobs.Items
}

// unfinishedJobs are those of the ScaledJob that have not ended.
func (s *scaledJob) unfinishedJobs() []*batchv1.Job {
	s.t.Helper()
	var running []*batchv1.Job
	for _, job := range s.ownedJobs() {
		if !hasFinished(&job) {
			running = append(running, &job)
		}
	}
	return running
}

// pods are the Pods of the Jobs of the ScaledJob.
func (s *scaledJob) pods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.API.List(s.t.Context(), &pods, s.ours()...)).To(Succeed())
	return pods.Items
}

func (s *scaledJob) ours() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{scaledjobv1.LabelScaledJob: s.Name}}
}

// created is how many Jobs there have been in the namespace, by its watch,
// which has seen all that are there now.
func (s *scaledJob) created() int {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(s.API.List(s.t.Context(), &jobs, client.InNamespace(s.Namespace))).To(Succeed())
	for _, job := range jobs.Items {
		s.Eventually(s.watch.lastOf).WithArguments(job.UID).ShouldNot(BeNil())
	}
	return s.watch.created()
}

// startJob pushes a message and returns the Job that is made for it.
func (s *scaledJob) startJob() *batchv1.Job {
	s.t.Helper()
	before := s.ownedJobs()
	s.PushTogether(1)
	var started *batchv1.Job
	s.Eventually(func() *batchv1.Job {
		for _, job := range s.ownedJobs() {
			isOld := slices.ContainsFunc(before, func(old batchv1.Job) bool { return old.UID == job.UID })
			if !isOld {
				started = &job
			}
		}
		return started
	}).ShouldNot(BeNil())
	return started
}
