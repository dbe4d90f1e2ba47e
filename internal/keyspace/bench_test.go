// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// receiver is a session that is subscribed to the queues of ten ScaledJobs, and gets pushes for one of them.
type receiver struct {
	*session

	watcher *Watcher
	push    *redis.Message
}

func newReceiver() *receiver {
	w := newVerified(10, 1)
	server := w.supervisors[auth.Endpoint{Address: "10.0.0.1:6379"}]
	server.received = func() { /* not counted */ }
	return &receiver{&session{supervisor: server}, w, &redis.Message{Channel: list("queue-7-0").channel(), Payload: "lpush"}}
}

// allow forgets how many pushes came, so that they are not too many.
func (r *receiver) allow() {
	set := r.supervisor.set
	set.mu.Lock()
	defer set.mu.Unlock()
	set.budgets = &budget.Namespaces{}
	set.channels[r.push.Channel].taken = budget.NewKey()
}

// Most notifications of a queue that grows fast change nothing: a wake is pending.
func TestNotificationThatChangesNothingAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	r := newReceiver()
	r.supervisor.received = metrics.New(prometheus.NewRegistry()).Received(r.supervisor.name)
	g.Expect(r.answer(r.push)).To(Succeed())
	g.Expect(testing.AllocsPerRun(1000, func() { _ = r.answer(r.push) })).To(BeZero())
}

// BenchmarkNotification measures a notification of a queue that grows fast, from when its message was read.
func BenchmarkNotification(b *testing.B) {
	r := newReceiver()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%budget.KeyBurst == 0 {
			r.allow()
		}
		if err := r.answer(r.push); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNotificationToWake measures a notification of an idle queue, from when its message was read until its wake is
// delivered, and that the ScaledJob begins and ends to be watched.
func BenchmarkNotificationToWake(b *testing.B) {
	r := newReceiver()
	id, delivered := ID{Namespace: "tenant", Name: "7"}, 0
	r.watcher.options.Deliver = func(coalesce.Wake) { delivered++ }
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%budget.KeyBurst == 0 {
			r.allow()
		}
		r.watcher.throttle.Remove(id)
		r.watcher.throttle.Add(id)
		if err := r.answer(r.push); err != nil {
			b.Fatal(err)
		}
	}
	if delivered != b.N {
		b.Fatalf("%d wakes for %d notifications", delivered, b.N)
	}
}
