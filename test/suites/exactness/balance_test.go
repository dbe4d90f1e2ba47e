// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// Messages come as fast as Jobs finish, so that the depth crosses the limit again and again.
func TestStatusOfAQueueInBalanceAtItsLimit(t *testing.T) {
	skip.UnderShort(t, "TestJobsThatFinishAllTheTimeWriteTheStatusSparsely has the same bound")
	t.Parallel()
	g := NewWithT(t)
	const limit, rounds = 10, 400
	namespace := newNamespace(t)
	by := startOperator(t, startProxy(t), []string{namespace})
	s := newScaledJob(t, namespace, "balanced", 1, limit)
	s.awaitSubscription(t)
	g.Expect(s.PushTogether(t.Context(), limit)).To(Succeed())
	g.Expect(s.Witness.AwaitCreated(t.Context(), limit)).To(Succeed())
	ended := map[string]bool{} // The witness may be yet to see it.
	before, began := statusWrites(t, by), time.Now()
	for range rounds {
		// Two messages, and two workers: one ends its Job before the message of the other is taken, and one after.
		g.Expect(s.PushTogether(t.Context(), 2)).To(Succeed())
		var left []string
		g.Eventually(func() int {
			left = slices.DeleteFunc(s.Witness.Unfinished(), func(job string) bool { return ended[job] })
			return len(left)
		}).WithTimeout(timeout).Should(BeNumerically(">=", 2), "Jobs to end")
		ended[left[0]], ended[left[1]] = true, true
		g.Expect(s.end(t.Context(), left[0])).To(Succeed())
		g.Expect(scene.Pause(t.Context(), 10*time.Millisecond)).To(Succeed())
		g.Expect(redis.Client().RPopCount(t.Context(), s.Object.Spec.QueueName, 2).Err()).To(Succeed())
		g.Expect(s.end(t.Context(), left[1])).To(Succeed())
		g.Expect(scene.Pause(t.Context(), 10*time.Millisecond)).To(Succeed())
	}
	seconds := time.Since(began).Seconds()
	writes := statusWrites(t, by) - before
	t.Logf("%d status writes in %.1f s", writes, seconds)
	const first = 3 // Conditions that change may be written at once, but not all the time.
	// Numbers are written 0.75 to 1.25 seconds after they have changed.
	g.Expect(float64(writes-first)/seconds).To(BeNumerically("<=", 1/0.75), "status writes a second")
}

func statusWrites(t *testing.T, by *operator.Operator) int {
	t.Helper()
	writes, err := metric(t.Context(), by, "rest_client_requests_total", `method="PATCH"`)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return writes
}
