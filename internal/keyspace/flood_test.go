// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// withCooldown sets how long keys with too many notifications rest.
func withCooldown(d time.Duration) func(*harness) {
	return func(w *harness) { w.options.Timing.Cooldown = d }
}

// unboundedOutput is a server that does not cut off a subscriber which takes a flood too slowly.
func unboundedOutput() redistest.Options {
	return redistest.Options{Args: []string{"--client-output-buffer-limit", "pubsub", "0", "0", "0"}}
}

// flood fills pipelines and executes them, as fast as the server lets it, until stop returns.
func (h *harness) flood(server *redistest.Server, fill func(ctx context.Context, pipe redis.Pipeliner)) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	var flooding sync.WaitGroup
	flooding.Go(func() {
		for ctx.Err() == nil {
			pipe := server.Client().Pipeline()
			fill(ctx, pipe)
			_, _ = pipe.Exec(ctx)
		}
	})
	return func() {
		cancel()
		flooding.Wait()
	}
}

// pushesAndPops fill a pipeline with changes of the key flooded.
func pushesAndPops(ctx context.Context, pipe redis.Pipeliner) {
	for range 1000 {
		pipe.LPush(ctx, "flooded", 1)
		pipe.LPop(ctx, "flooded")
	}
}

// The flood of one key is not taken for long. Its queue is tracked meanwhile, and other namespaces notice nothing.
func TestAFloodedKeyIsTracked(t *testing.T) {
	h, server := newServed(t, unboundedOutput(), withCooldown(time.Hour))
	quiet := ID{Namespace: "another", Name: "quiet"}
	stateOfQuiet := func() State { return h.Watcher.State(quiet) }
	h.Watcher.Ensure(quiet, h.endpoint, AnySource, list("quiet"))
	h.ensure("flooded")
	h.Eventually(stateOfQuiet).Should(HaveField("Reason", verify.ReasonSubscribed))
	stop := h.flood(server, pushesAndPops)
	defer stop()

	h.eventuallyJudged("flooded", verify.ReasonTooManyNotifications)
	h.eventuallyTracked("flooded", verify.Tracked)
	h.Eventually(h.present).WithArguments("flooded").Should(BeFalse())
	taken := h.recorded.received.Load()
	do(t, server, "lpush", "quiet", 1)
	h.eventually("quiet", 1)
	h.Consistently(h.recorded.received.Load).WithTimeout(time.Second).Should(BeNumerically("<=", taken+1))
	h.Expect(stateOfQuiet().Verdict).To(Equal(verify.Verdict{Reason: verify.ReasonSubscribed}))
	h.Expect(stateOfQuiet().Tracking).To(Equal(verify.NotTracked))

	stop()
	for depth := range int64(5) {
		do(t, server, "del", "flooded")
		for range depth + 1 {
			do(t, server, "lpush", "flooded", 1)
		}
		h.eventually("flooded", depth+1)
	}
	h.Expect(h.State("flooded").Reason).To(Equal(verify.ReasonTooManyNotifications))
}

// The negative control: with no cooldown, it takes the same flood to its end.
func TestAFloodIsTakenWithoutCooldown(t *testing.T) {
	h, server := newServed(t, unboundedOutput(), withCooldown(0))
	h.ensure("flooded")
	defer h.flood(server, pushesAndPops)()
	h.Eventually(h.recorded.received.Load).Should(BeNumerically(">=", 5*budget.KeyBurst))
}

// Where tracking is not available, the state says that the queue must be polled. It is also the negative control of
// the tests here: nothing reports a push.
func TestAFloodedKeyIsPolledWithoutTracking(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, unboundedOutput())
	do(t, server, "acl", "setuser", "default", "-client|tracking")
	h := newHarness(t, server.Addr(), withCooldown(time.Hour))
	h.ensure("flooded")
	stop := h.flood(server, pushesAndPops)
	defer stop()
	h.eventuallyJudged("flooded", verify.ReasonTooManyNotifications)
	stop()
	h.Expect(h.State("flooded").Tracking).To(Equal(verify.NotTracked))
	h.Expect(h.State("flooded").Announced()).To(BeFalse())
	h.Eventually(h.present).WithArguments("flooded").Should(BeFalse())
	pushed := 0
	h.Eventually(func(g Gomega) { // The last wake because of the flood may be on its way.
		pushed++
		do(t, server, "del", "flooded")
		for range pushed {
			do(t, server, "lpush", "flooded", 1)
		}
		g.Consistently(h.depth).WithArguments("flooded").WithTimeout(time.Second).ShouldNot(BeEquivalentTo(pushed))
	}).Should(Succeed())
}

// Each key gets few pushes, at random moments, while forged notifications make it rest again and again. Nothing reads a
// key except after a wake.
func TestNoPushIsMissedWhileKeysAreFlooded(t *testing.T) {
	h, server := newServed(t, redistest.Options{}, withCooldown(20*time.Millisecond), func(w *harness) { w.options.Timing = shortened() })
	const many = 50
	keys := make([]string, many)
	for i := range keys {
		keys[i] = "queue-" + strconv.Itoa(i)
	}
	h.ensure(keys...)
	stop := h.flood(server, func(ctx context.Context, pipe redis.Pipeliner) {
		channel := channelPrefix + keys[rand.IntN(many)]
		for range budget.KeyBurst + budget.KeyRate {
			pipe.Publish(ctx, channel, "lpush")
		}
	})
	defer stop()
	pushes := 2_000
	if testing.Short() {
		pushes = 500
	}
	pushed, suspensions, began := map[string]int64{}, 0, time.Now()
	for i := 0; i < pushes || suspensions == 0 && time.Since(began) < timeout; i++ {
		key := keys[rand.IntN(many)]
		do(t, server, "lpush", key, 1)
		pushed[key]++
		if h.State(key).Reason == verify.ReasonTooManyNotifications {
			suspensions++
		}
		pause(t.Context(), time.Duration(rand.IntN(int(3*time.Millisecond))))
	}
	stop()
	h.Expect(suspensions).To(BeNumerically(">", 0), "keys were flooded")
	for key, times := range pushed {
		h.eventually(key, times)
	}
}
