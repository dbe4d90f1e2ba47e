// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// A ScaledJob is deleted while creates for it are under way. They are carried out
// when it is gone with all Jobs that it had, and long before the operator hears.
func TestDeletionInMidBatch(t *testing.T) {
	t.Parallel()
	for name, propagation := range skip.AllBut(t, map[string]metav1.DeletionPropagation{
		"foreground": metav1.DeletePropagationForeground, "background": metav1.DeletePropagationBackground,
	}, "background") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The first creates are 1, 2, 4 and 8 at the same time. Those after them are 16.
			const messages, before = 2 * createsPerReconcile, 1 + 2 + 4 + 8
			g := NewWithT(t)
			s, proxy := newSingle(t, "deleted", messages)
			proxy.jobs.Set(shortLag)
			proxy.scaledJobs.Set(frozen)
			late := proxy.holdCreates(before, 1)

			s.PushTogether(messages)
			g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
			g.Expect(api.Delete(t.Context(), s.Object, client.PropagationPolicy(propagation))).To(Succeed())
			g.Eventually(api.Get).WithArguments(t.Context(), client.ObjectKeyFromObject(s.Object), &scaledjobv1.ScaledJob{}).
				WithTimeout(timeout).Should(MatchError(apierrors.IsNotFound, "not found"))
			g.Eventually(s.Jobs.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "Jobs before the creates are carried out")
			decided := s.Jobs.Created() + late.Held() + createsPerReconcile
			g.Expect(late.Release()).To(Succeed())
			s.awaitReconciles(s.Operator, restReconciles)
			proxy.scaledJobs.Set(longLag)
			requireGone(t, s.Operator, jobwatch.Row{
				Fault:   fmt.Sprintf("deleted (%s) with 16 creates under way, which are carried out when it is gone", propagation),
				Promise: "no more creates follow than the operator had decided on, and all Jobs go",
			}, want{scaledJob: s, jobs: decided})
		})
	}
}

// requireGone waits until the ScaledJob of the want has no Job left and the operator has forgotten it, and then holds
// the want, which is how many Jobs it may have had at most, against the Jobs that there ever were.
func requireGone(t *testing.T, by *operator.Operator, fault jobwatch.Row, c want) {
	t.Helper()
	defer func() {
		_, fault.Over = difference([]want{c})
		table.Add(fault)
	}()
	g, ended, s := NewWithT(t), time.Now(), c.scaledJob
	s.Operator = by
	g.Eventually(s.Reconciles).WithTimeout(timeout).Should(BeZero(), "reconciles of a ScaledJob that the operator still knows of")
	g.Expect(sjtest.Pause(t.Context(), longLag)).To(Succeed())
	g.Expect(s.Jobs.Sync(t.Context())).To(Succeed())
	g.Eventually(s.Jobs.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "Jobs that it controls")
	fault.Recovery = time.Since(ended)
	g.Expect(s.Jobs.Violation()).To(BeEmpty())
	g.Expect(s.Jobs.Created()).To(BeNumerically("<=", c.jobs), "Jobs that it ever controlled")
}

// A ScaledJob takes the name and the queue of one that the operator takes to be alive yet.
func TestRecreation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	first := newSaturatedScaledJob(t, namespace, "recreated", operator)
	proxy.scaledJobs.Set(longLag)

	g.Expect(api.Delete(t.Context(), first.Object, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	second := newScaledJob(t, namespace, "recreated", 1, saturation)
	g.Expect(second.storm(t.Context())).To(Succeed())
	requireExactly(t, operator, jobwatch.Row{
		Fault:   "recreated with the same name and queue, watches 0.5 s late",
		Promise: "the new ScaledJob gets its Jobs, and those of the old one go",
	}, want{scaledJob: second, jobs: saturation})
	g.Eventually(first.Jobs.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "the garbage collector takes its time")
	g.Expect(first.Jobs.Violation()).To(BeEmpty())
	g.Expect(first.Jobs.Created()).To(Equal(saturation))
}

// A ScaledJob is deleted and created again, with another queue, while the watch of ScaledJobs is down. To the new watch
// that looks like an update, of an object whose generation is still 1.
func TestRecreatedWhileTheWatchIsDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	startOperator(t, proxy, []string{namespace})
	rarely := sjtest.Polling(sjtest.Never)
	former := newScaledJob(t, namespace, "recreated", 1, 10, rarely)
	former.AwaitSubscription()
	proxy.scaledJobs.Set(frozen)
	left := proxy.expire("scaledjobs")
	g.Expect(api.Delete(t.Context(), former.Object)).To(Succeed())
	current := newScaledJob(t, namespace, "recreated", 1, 10, rarely, func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName += ":other" })
	proxy.scaledJobs.End()
	proxy.scaledJobs.Set(0)
	g.Eventually(left).WithTimeout(timeout).Should(BeZero())

	current.PushTogether(5)
	g.Eventually(current.Jobs.Created).WithTimeout(timeout/3).Should(Equal(5), "the new ScaledJob is served")
}

// Kubernetes deletes each Job as soon as it has finished, and the operator may hear of both at once.
func TestJobsWithoutTimeToLive(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, proxy := newSingle(t, "worked", saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		none, many := int32(0), int32(stormPushes)
		spec.JobTemplate.Spec.TTLSecondsAfterFinished = &none
		spec.SuccessfulJobsHistoryLimit = &many
	})
	proxy.lag(longLag)

	finished := must.Get(stormAndWork(t.Context(), s))(g)
	requireExactly(t, s.Operator, jobwatch.Row{
		Fault:   "finished Jobs are deleted at once (ttlSecondsAfterFinished 0) in a storm, watches 0.5 s late",
		Promise: "freed slots are filled, once each",
	}, want{scaledJob: s, jobs: saturation + finished})
	g.Eventually(s.present).WithContext(t.Context()).WithTimeout(timeout).Should(Equal(saturation), "Jobs that are left")
}

// The operator deletes each Job that has finished. When none is left it is killed,
// and the next one cannot know which names there were.
func TestNoHistory(t *testing.T) {
	skip.UnderShort(t, "TestJobsWithoutTimeToLive tests the other limit of what is kept")
	t.Parallel()
	g := NewWithT(t)
	s, proxy := newSingle(t, "worked", saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		none := int32(0)
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = &none, &none
	})
	s.PushTogether(saturation)
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation))
	first := s.Jobs.Unfinished()
	proxy.lag(longLag)

	finished := must.Get(stormAndWork(t.Context(), s))(g)
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation+finished))
	g.Expect(redis.Client().LTrim(t.Context(), s.Object.Spec.QueueName, 1, saturation).Err()).To(Succeed())
	for i, job := range s.Jobs.Unfinished() {
		end := s.finish
		if i < 2 { // three that fail would make the operator pause
			end = s.fail
		}
		g.Expect(end(t.Context(), job)).To(Succeed())
	}
	g.Eventually(s.present).WithContext(t.Context()).WithTimeout(timeout).Should(BeZero(), "Jobs that are left")
	g.Expect(s.Operator.Kill()).To(Succeed())

	next := startOperator(t, proxy, []string{s.Namespace})
	s.PushTogether(saturation)
	requireExactly(t, next, jobwatch.Row{
		Fault:   "no finished Job is kept in a storm, and then none at all, watches 0.5 s late; kill -9",
		Promise: "Jobs with the names of earlier ones are distinguished from them",
	}, want{scaledJob: s, jobs: saturation + finished + saturation})
	g.Expect(s.Jobs.Unfinished()).To(Equal(first), "names that are used again")
}

// present is how many Jobs there are in the namespace of the ScaledJob, besides those that belong to no one.
func (s *scaledJob) present(ctx context.Context) (int, error) {
	var jobs batchv1.JobList
	err := api.List(ctx, &jobs, client.InNamespace(s.Object.Namespace),
		client.MatchingLabels{scaledjobv1.LabelScaledJob: s.Object.Name})
	return len(jobs.Items), err
}
