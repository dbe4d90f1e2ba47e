// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestASessionThatIsNeverConfirmedBacksOff(t *testing.T) {
	t.Parallel()
	server := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "subscribe" {
			return redistest.HangUp
		}
		return redistest.Usual
	})
	h := newHarness(t, server.Addr())
	begun := time.Now()
	h.Ensure("emails", h.endpoint, list("emails"))
	h.Eventually(server.Dials).WithTimeout(timeout).Should(BeNumerically(">=", 5))
	h.Expect(time.Since(begun)).To(BeNumerically(">=", 4*250*time.Millisecond))
}

// A session cannot work with a server that answers only PING.
func TestASubscriptionThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	var answering atomic.Bool
	server := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "subscribe" && !answering.Load() {
			return redistest.Nothing
		}
		return redistest.Usual
	})
	h := newHarness(t, server.Addr(), impatient)
	h.Ensure("emails", h.endpoint, list("emails"))
	h.Eventually(server.Dials).WithTimeout(timeout).Should(BeNumerically(">=", 3))
	answering.Store(true)
	h.eventuallyWoken("emails", coalesce.Confirmed, 1)
}

func TestTransitionsAreLoggedAndNothingElse(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	var mu sync.Mutex
	lines := map[string]int{}
	log := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		for _, message := range []string{"Subscribed to", "Not subscribed to", "Read notify-keyspace-events"} {
			if strings.Contains(line, message) {
				lines[message]++
				return
			}
		}
		lines[line]++
	}, funcr.Options{})
	h := newHarness(t, server.Addr(), func(w *Watcher) { w.options.Log = log })
	h.ensure("emails", "other")
	for round := range 3 {
		for range 100 {
			do(t, server, "lpush", "emails", 1)
		}
		do(t, server, "client", "kill", "type", "pubsub")
		h.eventuallyWoken("other", coalesce.Confirmed, round+2)
	}
	h.Eventually(func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		ends := lines["Not subscribed to"]
		return map[string]int{"beginnings without an end": lines["Subscribed to"] - ends, "killed": min(3, ends), "kinds": len(lines)}
	}).WithTimeout(timeout).Should(Equal(map[string]int{"beginnings without an end": 1, "killed": 3, "kinds": 3}),
		"a busy machine may end more sessions")
}
