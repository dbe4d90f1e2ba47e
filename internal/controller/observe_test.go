// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/requests"
)

// setReady gives all unfinished Jobs so many ready Pods.
func (w *world) setReady(t *testing.T, ready int32) {
	t.Helper()
	for _, job := range w.jobs(t.Context()) {
		job.Status.Ready = &ready
		w.Expect(w.api.Status().Update(t.Context(), &job)).To(Succeed())
	}
}

// Workers that pop at the start: what they have popped is theirs, and what waits is for others. Until that is known, it may be for them.
func TestAccurateWaitsForClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		sj.Spec.Threshold = 1
		sj.Spec.ScalingStrategy = scaledjobv1.ScalingStrategy{Type: scaledjobv1.StrategyAccurate}
		w := newWorld(t, sj)
		w.queues.SetDepth(emailQueue, 3)
		w.reconcile(t.Context())
		w.Expect(w.names()).To(HaveLen(3))

		w.setReady(t, 1)
		result := w.reconcile(t.Context())
		w.Expect(w.names()).To(HaveLen(3), "they may be about to pop")
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", 10*time.Second), "that ends by itself")

		w.queues.SetDepth(emailQueue, 2) // Three popped, two new.
		w.reconcile(t.Context())
		w.Expect(w.names()).To(HaveLen(3))
		time.Sleep(10 * time.Second)
		w.reconcile(t.Context())
		w.Expect(w.names()).To(HaveLen(5))
		w.Expect(w.scaledJob(t.Context()).Status.DesiredJobs).To(HaveValue(BeEquivalentTo(5)))

		w.reconcile(t.Context())
		w.Expect(w.names()).To(HaveLen(5), "the new ones are for those two")
	})
}

// Nothing tells that a message has fallen due, so the operator comes by itself.
func TestAPassComesWhenAMessageFallsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		sj.Spec.QueueName = ""
		sj.Spec.Queues = []scaledjobv1.Queue{{
			Name: "delayed", Type: scaledjobv1.QueueSortedSet, SortedSet: &scaledjobv1.SortedSetQueue{Window: scaledjobv1.WindowDue},
		}}
		w := newWorld(t, sj)
		for due, want := range map[time.Duration]time.Duration{
			7 * time.Second:      7 * time.Second,
			time.Millisecond:     dueSpacing,
			-time.Second:         dueSpacing,
			24 * 365 * time.Hour: 0,
		} {
			w.queues.SetCount("delayed", queue.Count{NextDue: time.Now().Add(due)})
			w.reconcile(t.Context()) // It may have a status to write later.
			time.Sleep(2 * time.Second)
			w.queues.SetCount("delayed", queue.Count{NextDue: time.Now().Add(due)})
			result := w.reconcile(t.Context())
			if want == 0 {
				w.Expect(result.RequeueAfter).To(BeNumerically("~", 30*time.Second, 3*time.Second))
				continue
			}
			w.Expect(result.RequeueAfter).To(Equal(want))
			w.Expect(result.Priority).To(HaveValue(Equal(requests.PriorityGrowth)))
		}
		w.Expect(w.watcher.observed).To(BeEmpty(), "growth without an event says nothing about Redis there")

		w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
		w.queues.SetCount("delayed", queue.Count{NextDue: time.Now().Add(time.Millisecond)})
		w.reconcile(t.Context())
		w.Expect(w.reconcile(t.Context()).RequeueAfter).To(Equal(idleDueSpacing), "while nothing can be created")
	})
}
