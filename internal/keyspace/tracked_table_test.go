// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// trackMany tracks this many lists until each is tracked, and returns their names.
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

// The server's table has room for a third of the keys, so it forgets keys all the time, and invalidates each. How often
// they are read is proven in package tracking.
func TestAFullTableLosesNoWake(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	do(t, server, "config", "set", "tracking-table-max-keys", 100)
	const many = 300
	keys := h.trackMany(many)
	for _, key := range keys {
		h.eventuallyWoken(key, coalesce.Shrink, 1) // Its length was equal often enough.
	}
	for round := range int64(3) {
		for _, key := range keys {
			do(t, server, "lpush", key, 1)
		}
		for _, key := range keys {
			h.eventually(key, round+1)
		}
	}
}

func TestTenThousandTrackedKeys(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	many := 10_000
	if testing.Short() {
		many = 1_000 // There are still several round trips.
	}
	keys := h.trackMany(many)
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
		h.eventuallyTracked(key, verify.Tracked)
	}
}
