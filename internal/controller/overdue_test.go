// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestPromoteOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r := &Reconciler{Wakes: make(Wakes)}
		r.memories.of(scaledJob())
		patient := scaledJob()
		patient.Name = "letters"
		r.memories.of(patient)
		start := time.Now()
		r.memories.expect(emails, start.Add(12*time.Second+1))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.promoteOverdue(ctx) }()

		for _, at := range []time.Duration{13 * time.Second, 14 * time.Second} {
			woken := <-r.Wakes
			g.Expect(woken.Object).To(Equal(wake{key: emails, priority: priorityOverdue}))
			g.Expect(time.Since(start)).To(Equal(at), "until it had its turn")
		}
		r.memories.expect(emails, start.Add(time.Hour))
		select {
		case <-r.Wakes:
			t.Error("it is not overdue any more")
		case <-time.After(time.Minute):
		}

		r.memories.expect(emails, start)
		time.Sleep(overdueInterval)
		stop()
		g.Expect(<-ended).To(Succeed(), "also while nobody takes the wake-up")
	})
}

// A pass that was made is what a ScaledJob has to wait for no longer.
func TestReconcileIsOverdueAfterOneAndAHalfIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.reconcile(t.Context())

		w.Expect(w.r.memories.overdue(time.Now().Add(45 * time.Second))).To(BeEmpty())
		w.Expect(w.r.memories.overdue(time.Now().Add(46 * time.Second))).To(HaveLen(1))
		time.Sleep(30 * time.Second)
		w.reconcile(t.Context())
		w.Expect(w.r.memories.overdue(time.Now().Add(45 * time.Second))).To(BeEmpty())
	})
}
