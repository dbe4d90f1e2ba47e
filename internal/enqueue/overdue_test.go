// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestPromote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var deadlines Deadlines
		wakes := make(Wakes)
		start := time.Now()
		deadlines.Expect(emails, start.Add(12*time.Second+1))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			deadlines.Promote(ctx, wakes)
			close(ended)
		}()

		for _, at := range []time.Duration{13 * time.Second, 14 * time.Second} {
			woken := <-wakes
			g.Expect(woken.Object).To(Equal(wake{key: emails, priority: PriorityOverdue}))
			g.Expect(time.Since(start)).To(Equal(at), "the request arrives when the ScaledJob is overdue")
		}
		deadlines.Expect(emails, start.Add(time.Hour))
		select {
		case <-wakes:
			t.Error("the ScaledJob is no longer overdue, but was requested")
		case <-time.After(time.Minute):
		}

		deadlines.Expect(emails, start)
		time.Sleep(overdueInterval)
		stop()
		<-ended // Also while no controller receives the wake-up.
	})
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var deadlines Deadlines
	now := time.Unix(1000, 0)
	g.Expect(deadlines.overdue(now)).To(BeEmpty())

	deadlines.Expect(emails, now)
	g.Expect(deadlines.overdue(now)).To(BeEmpty())
	g.Expect(deadlines.overdue(now.Add(1))).To(Equal([]types.NamespacedName{emails}))
	letters := types.NamespacedName{Namespace: "mail", Name: "letters"}
	deadlines.Expect(letters, now.Add(-time.Second))
	g.Expect(deadlines.overdue(now.Add(1))).To(Equal([]types.NamespacedName{letters, emails}),
		"the longest overdue first")
	deadlines.Expect(emails, now.Add(time.Minute))
	deadlines.Forget(letters)
	g.Expect(deadlines.overdue(now.Add(1))).To(BeEmpty())
	g.Expect(deadlines.overdue(now.Add(time.Hour))).To(Equal([]types.NamespacedName{emails}),
		"a deleted ScaledJob has no deadline")
}

func TestDeadlinesConcurrently(t *testing.T) {
	t.Parallel()
	var deadlines Deadlines
	var passes sync.WaitGroup
	for i := range 8 {
		key := types.NamespacedName{Namespace: "mail", Name: fmt.Sprint("emails-", i)}
		passes.Go(func() {
			for range 100 {
				deadlines.Expect(key, time.Now())
				deadlines.overdue(time.Now())
				deadlines.Forget(key)
			}
		})
	}
	passes.Wait()
	NewWithT(t).Expect(deadlines.by).To(BeEmpty())
}
