// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestTheLifeOfAWatcher(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewEmulated(t)
	endpoint := auth.Endpoint{Address: server.Addr()}
	var h *harness
	t.Run("from start to end", func(t *testing.T) {
		h = newHarness(t, server.Addr(), func(w *harness) {
			w.Ensure("early", endpoint, list("queue"))
			w.Ensure("forgotten", endpoint, list("other"))
			w.Forget("forgotten")
		})
		h.eventuallyWoken("early", coalesce.Confirmed, 1)
		h.Ensure("late", endpoint, list("queue"))
		h.eventuallyWoken("late", coalesce.Confirmed, 1)
		h.eventuallySubscribed(server, "queue")
		h.eventuallyJudged("early", verify.ReasonSubscribed)
		h.eventuallyJudged("late", verify.ReasonSubscribed)
		must(t, server.Client().LPush(t.Context(), "queue", 1))
		h.eventuallyWoken("early", coalesce.Growth, 1)
		h.eventuallyWoken("late", coalesce.Growth, 1)
	})
	h.Ensure("too late", endpoint, list("queue"))
	h.Forget("late")
	must(t, server.Client().LPush(t.Context(), "queue", 1))
	g.Expect(h.count("early", coalesce.Growth)).To(Equal(1))
	g.Expect(h.count("too late", coalesce.Confirmed)).To(BeZero())
	g.Expect(h.count("forgotten", coalesce.Confirmed)).To(BeZero())
}

func TestOnePushWakesAllWhoWatchTheQueue(t *testing.T) {
	t.Parallel()
	server := redistest.NewEmulated(t)
	h := newHarness(t, server.Addr())
	const many = 200
	for i := range many {
		h.Ensure(fmt.Sprint(i), h.endpoint, list("queue"))
	}
	for i := range many {
		h.eventuallyWoken(fmt.Sprint(i), coalesce.Confirmed, 1)
		h.eventuallyJudged(fmt.Sprint(i), verify.ReasonSubscribed)
	}
	must(t, server.Client().LPush(t.Context(), "queue", 1))
	for i := range many {
		h.eventuallyWoken(fmt.Sprint(i), coalesce.Growth, 1)
	}
	// A second wake would be delivered before that of a new id.
	h.Ensure("last", h.endpoint, list("queue"))
	h.eventuallyWoken("last", coalesce.Confirmed, 1)
	for i := range many {
		h.Expect(h.count(fmt.Sprint(i), coalesce.Growth)).To(Equal(1))
	}
}

func TestForgetEndsWhatNobodyElseWatches(t *testing.T) {
	t.Parallel()
	server := redistest.NewEmulated(t)
	h := newHarness(t, server.Addr())
	h.Ensure("a", h.endpoint, list("only-a"), list("both"))
	h.Ensure("b", h.endpoint, list("both"), list("only-b"))
	h.eventuallySubscribed(server, "only-a", "both", "only-b")

	h.Forget("a")
	h.eventuallySubscribed(server, "both", "only-b")
	must(t, server.Client().LPush(t.Context(), "only-a", 1))
	must(t, server.Client().LPush(t.Context(), "both", 1))
	h.eventuallyWoken("b", coalesce.Growth, 1)
	h.Expect(h.count("a", coalesce.Growth)).To(BeZero())

	h.Forget("b")
	h.eventuallySubscribed(server)
	h.Ensure("b", h.endpoint, list("both"))
	h.eventuallySubscribed(server, "both")
}

// eventuallySubscribed waits until the watcher is subscribed to exactly these keys.
func (h *harness) eventuallySubscribed(server *redistest.Emulated, keys ...string) {
	h.t.Helper()
	channels := make([]string, 0, len(keys))
	for _, key := range keys {
		channels = append(channels, channelPrefix+key)
	}
	h.Eventually(func() ([]string, error) {
		return server.Client().PubSubChannels(h.t.Context(), "*").Result()
	}).WithTimeout(timeout).WithPolling(time.Millisecond).Should(ConsistOf(channels))
}
