// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// trackMany tracks this many lists until each is armed, and returns their names.
func (h *harness) trackMany(many int) (keys []string) {
	h.t.Helper()
	for i := range many {
		keys = append(keys, "queue-"+strconv.Itoa(i))
		h.Track(keys[i], h.endpoint, list(keys[i]))
	}
	for _, key := range keys {
		h.Eventually(func() verify.Tracking { return h.State(key).Tracking }).WithTimeout(timeout).
			WithPolling(time.Millisecond).ShouldNot(Equal(verify.NotTracked), key)
	}
	return keys
}

// The server's table has room for a third of the keys, so it forgets keys all the time, and tells of each. The test
// counts per second, so it runs alone.
func TestAFullTableCostsOneReadASecondForEachKey(t *testing.T) {
	var wakes atomic.Int64
	h, server := newTracked(t, func(w *Watcher) {
		deliver := w.options.Deliver
		w.options.Deliver = func(ctx context.Context, wake coalesce.Wake) {
			wakes.Add(1)
			deliver(ctx, wake)
		}
	})
	do(t, server, "config", "set", "tracking-table-max-keys", 100)
	const many = 300
	keys := h.trackMany(many)
	for _, key := range keys {
		h.eventuallyWoken(key, coalesce.Shrink, 1) // Its length was equal often enough.
	}
	do(t, server, "config", "resetstat")
	before, began := wakes.Load(), time.Now()
	h.Eventually(func() int64 { return wakes.Load() - before }).WithTimeout(timeout).Should(BeNumerically(">=", 2*many), "no wake is dropped")
	// Each wake reads the depth as well.
	reads := int64(calls(t, server, "llen")) - (wakes.Load() - before)
	t.Logf("%d reads that arm and %d wakes of %d keys in %s", reads, wakes.Load()-before, many, time.Since(began))
	h.Expect(float64(reads)).To(BeNumerically("<=", many*(time.Since(began).Seconds()+1)))
	for round := range int64(3) {
		for _, key := range keys {
			do(t, server, "lpush", key, 1)
		}
		for _, key := range keys {
			h.eventually(key, round+1)
		}
	}
}

// At rest the server is asked for nothing except a PING. The test is heavy, so it runs alone.
func TestTenThousandTrackedKeys(t *testing.T) {
	skip.UnderShort(t, "TestFlushesAndOtherDatabasesLoseNothing has a thousand keys")
	h, server := newTracked(t)
	keys := h.trackMany(10_000)
	h.Eventually(func() int { // The first wakes read too.
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.wakes)
	}).WithTimeout(timeout).Should(BeNumerically(">=", len(keys)))
	h.Eventually(func() int { // How many there were since the time before.
		defer do(t, server, "config", "resetstat")
		return calls(t, server, "llen")
	}).WithTimeout(timeout).WithPolling(500 * time.Millisecond).Should(BeZero())
	const rest = 4
	h.Consistently(func() int { return calls(t, server, "llen") }).WithTimeout(rest * time.Second).Should(BeZero())
	h.Expect(calls(t, server, "ping")).To(BeNumerically("<=", rest))

	pipe := server.Client().Pipeline()
	for _, key := range keys {
		pipe.LPush(t.Context(), key, 1)
	}
	began := time.Now()
	_, err := pipe.Exec(t.Context())
	h.Expect(err).NotTo(HaveOccurred())
	for _, key := range keys {
		h.eventually(key, 1)
	}
	told := time.Since(began)
	began = time.Now()
	must(t, server.Client().FlushAll(t.Context()))
	for _, key := range keys {
		h.eventually(key, 0)
	}
	t.Logf("pushes told and read after %s, the flush after %s", told, time.Since(began))
	for _, key := range keys {
		must(t, server.Client().LPush(t.Context(), key, 1))
	}
	for _, key := range keys {
		h.eventually(key, 1)
		h.Expect(h.State(key).Tracking).To(Equal(verify.Tracked))
	}
}
