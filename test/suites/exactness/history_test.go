// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// Kubernetes deletes each Job as soon as it has finished, and the operator may
// hear of both at once.
func TestJobsWithoutTimeToLive(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "worked", 1, saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		none, many := int32(0), int32(stormPushes)
		spec.JobTemplate.Spec.TTLSecondsAfterFinished = &none
		spec.SuccessfulJobsHistoryLimit = &many
	})
	s.awaitSubscription(t)
	proxy.lag(longLag)

	finished, err := stormAndWork(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	prove(t, operator, witness.Row{
		Fault:   "finished Jobs are deleted at once (ttlSecondsAfterFinished 0) in a storm, watches 0.5 s late",
		Promise: "freed slots are filled, once each",
	}, claim{scaledJob: s, jobs: saturation + finished})
	g.Eventually(s.present).WithContext(t.Context()).WithTimeout(timeout).Should(Equal(saturation), "Jobs that are left")
}

// The operator deletes each Job that has finished. When none is left it is killed,
// and the next one cannot know which names there were.
func TestNoHistory(t *testing.T) {
	skip.UnderShort(t, "TestJobsWithoutTimeToLive tests the other limit of what is kept")
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	killed := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "worked", 1, saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		none := int32(0)
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = &none, &none
	})
	s.awaitSubscription(t)
	g.Expect(s.PushTogether(t.Context(), saturation)).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation))
	first := s.Witness.Unfinished()
	proxy.lag(longLag)

	finished, err := stormAndWork(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation+finished))
	g.Expect(redis.Client().LTrim(t.Context(), s.Object.Spec.QueueName, 1, saturation).Err()).To(Succeed())
	for i, job := range s.Witness.Unfinished() {
		end := s.finish
		if i < 2 { // three that fail would make the operator pause
			end = s.fail
		}
		g.Expect(end(t.Context(), job)).To(Succeed())
	}
	g.Eventually(s.present).WithContext(t.Context()).WithTimeout(timeout).Should(BeZero(), "Jobs that are left")
	g.Expect(killed.Kill()).To(Succeed())

	next := startOperator(t, proxy, []string{namespace})
	g.Expect(s.PushTogether(t.Context(), saturation)).To(Succeed())
	prove(t, next, witness.Row{
		Fault:   "no finished Job is kept in a storm, and then none at all, watches 0.5 s late; kill -9",
		Promise: "Jobs with the names of earlier ones are distinguished from them",
	}, claim{scaledJob: s, jobs: saturation + finished + saturation})
	g.Expect(s.Witness.Unfinished()).To(Equal(first), "names that are used again")
}

// present is how many Jobs there are in the namespace of the ScaledJob, besides those
// that belong to no one.
func (s *scaledJob) present(ctx context.Context) (int, error) {
	var jobs batchv1.JobList
	err := api.List(ctx, &jobs, client.InNamespace(s.Object.Namespace),
		client.MatchingLabels{scaledjobv1.LabelScaledJob: s.Object.Name})
	return len(jobs.Items), err
}
