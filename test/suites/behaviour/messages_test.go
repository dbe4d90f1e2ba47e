// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

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

// edit changes the spec, and returns when the operator has acted on the change.
func (s *scaledJob) edit(changes ...scene.Change) {
	s.t.Helper()
	s.Update(changes...)
	generation := s.Get().Generation
	s.Eventually(s.Status).Should(HaveField("ObservedGeneration", BeNumerically(">=", generation)))
}

// remove takes a message off the queue.
func (s *scaledJob) remove() {
	s.t.Helper()
	s.Expect(s.redis.Client().RPop(s.t.Context(), s.Queue).Err()).To(Succeed())
}

// unfinishedJobs are those of the ScaledJob that have not ended.
func (s *scaledJob) unfinishedJobs() []*batchv1.Job {
	s.t.Helper()
	var running []*batchv1.Job
	for _, job := range s.jobs() {
		if !hasFinished(job) {
			running = append(running, job)
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

// startJob pushes a message and returns the Job that is made for it.
func (s *scaledJob) startJob() *batchv1.Job {
	s.t.Helper()
	before := s.jobs()
	s.PushTogether(1)
	var started *batchv1.Job
	s.Eventually(func() *batchv1.Job {
		for _, job := range s.jobs() {
			if !slices.ContainsFunc(before, func(old *batchv1.Job) bool { return old.UID == job.UID }) {
				started = job
			}
		}
		return started
	}).ShouldNot(BeNil())
	return started
}
