// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// upset changes what is watched and how, at random, until ctx is done. If both is true, it changes the source too.
func (h *harness) upset(ctx context.Context, keys []string, both bool, random *rand.Rand) {
	for ctx.Err() == nil {
		key := keys[random.IntN(len(keys))]
		id, own := named(key), list(key)
		switch random.IntN(6) {
		case 0:
			h.SetIdle(id, true)
		case 1, 2:
			h.SetIdle(id, false)
		case 3:
			h.Watcher.Forget(id)
			h.Watcher.Ensure(id, h.endpoint, OnlyTracking, own)
		case 4:
			h.Watcher.Ensure(id, h.endpoint, OnlyTracking, own, list(key+"-other"))
		default:
			if both {
				h.Watcher.Ensure(id, h.endpoint, AnySource, own)
			}
		}
		pause(ctx, time.Duration(random.IntN(int(300*time.Microsecond))))
	}
}

// switchSources switches notifications on and off until ctx is done. Each setting lasts until it was read, because what
// is not published meanwhile is found then.
func (h *harness) switchSources(ctx context.Context, server *redistest.Server) {
	h.Watcher.Ensure(named("canary"), h.endpoint, AnySource, list("canary"))
	for round := 0; ctx.Err() == nil; round++ {
		flags, want := "Klg", verify.ReasonSubscribed
		if round%2 == 1 {
			flags, want = "", verify.ReasonNotConfigured
		}
		do(h.t, server, "config", "set", "notify-keyspace-events", flags)
		h.Eventually(h.reason).WithArguments("canary").Should(Equal(want))
	}
}

// killConnections closes the connections on which keys are tracked again and again, until ctx is done.
func killConnections(ctx context.Context, t *testing.T, server *redistest.Server) {
	t.Helper()
	for ctx.Err() == nil {
		if _, err := server.KillTracking(t.Context()); err != nil {
			t.Error(err)
		}
		pause(ctx, 300*time.Millisecond)
	}
}

// Each key gets few pushes, at random moments, while connections end and sources, keys and paces change. Nothing reads
// a key except after a wake.
func TestNoPushIsMissedWhateverElseChanges(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]bool{"tracking only": false, "both sources": true} {
		t.Run(name, func(t *testing.T) {
			h, server := newTracked(t, func(w *harness) { w.options.Timing = shortened() })
			pushes := 10_000
			if testing.Short() {
				pushes = 2_000
			}
			const perKey = 5
			keys := h.trackMany(pushes / perKey)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var others sync.WaitGroup
			others.Go(func() { h.upset(ctx, keys, both, rand.New(rand.NewPCG(1, 1))) })
			others.Go(func() { killConnections(ctx, t, server) })
			if both {
				others.Go(func() { h.switchSources(ctx, server) })
			}
			random, pushed := rand.New(rand.NewPCG(2, 1)), map[string]int64{}
			for range pushes {
				key := keys[random.IntN(len(keys))]
				do(t, server, "lpush", key, 1)
				pushed[key]++
				pause(t.Context(), time.Duration(random.IntN(int(time.Millisecond))))
			}
			stop()
			others.Wait()
			for key, times := range pushed {
				h.eventually(key, times)
			}
		})
	}
}

// naive tracks keys on one connection, but reads the depth first and arms afterwards.
type naive struct {
	*connection.Wire
	t *testing.T
	// between is called between the two.
	between func(key string)

	mu    sync.Mutex
	seen  map[string]int64
	armed int // replies to the reads that arm
}

// run reads and arms each key, and again when the server reports a change, until the connection is closed.
func (n *naive) run(server *redistest.Server, keys []string) {
	wake := func(key string) {
		depth := server.Client().LLen(n.t.Context(), key).Val()
		n.mu.Lock()
		n.seen[key] = depth
		n.mu.Unlock()
		n.between(key)
		_ = n.Send([]string{"llen", key})
	}
	for _, key := range keys {
		wake(key)
	}
	for {
		reply, err := n.Receive(timeout)
		if err != nil {
			return
		}
		push, ok := reply.(resp.Push)
		if !ok {
			n.mu.Lock()
			n.armed++
			n.mu.Unlock()
			continue
		}
		for _, key := range push[1].([]any) {
			wake(key.(string))
		}
	}
}

// A push between the read and the beginning of the tracking is not reported. The last key has none, so a later push to
// it is reported.
func TestPushesAreMissedIfAKeyIsArmedAfterItWasRead(t *testing.T) {
	h, server := newServed(t, redistest.Options{Events: redistest.NoEvents})
	conn := must.Get(h.pool.Conn(h.endpoint, 0).OpenWire(t.Context()))(h)
	h.Expect(conn.Send([]string{"client", "tracking", "on"})).To(Succeed())
	h.Expect(conn.Receive(timeout)).Error().NotTo(HaveOccurred())
	keys := []string{"a", "b", "c", "last"}
	n := &naive{Wire: conn, t: t, seen: map[string]int64{}, between: func(key string) {
		if key != "last" {
			do(t, server, "lpush", key, 1)
		}
	}}
	var running sync.WaitGroup
	running.Go(func() { n.run(server, keys) })
	defer running.Wait()
	defer conn.Close()
	h.Eventually(func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.armed
	}).Should(Equal(len(keys)))
	do(t, server, "lpush", "last", 1)
	h.Eventually(func() map[string]int64 {
		n.mu.Lock()
		defer n.mu.Unlock()
		return maps.Clone(n.seen)
	}).Should(Equal(map[string]int64{"a": 0, "b": 0, "c": 0, "last": 1}))
}
