// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

// BenchmarkMarkToWorker measures the first event of a queue after a quiet time, from when it is marked until a worker has
// the request.
func BenchmarkMarkToWorker(b *testing.B) {
	queue := newQueue(32, func(string, int) {})
	defer queue.ShutDown()
	wakes := NewWakes()
	NewWithT(b).Expect(wakes.Source().Start(b.Context(), queue)).To(Succeed())
	throttle, id := coalesce.NewThrottle(wakes.Deliver, func() { /* not counted */ }), coalesce.ID(emails)
	for b.Loop() {
		throttle.Add(id)
		throttle.Request(id, coalesce.Growth)
		request, _, _ := queue.GetWithPriority()
		throttle.Serve(id)
		queue.Forget(request)
		queue.Done(request)
		throttle.Remove(id)
	}
}
