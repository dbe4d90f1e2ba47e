// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestASessionThatIsNeverConfirmedBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		h := newPiped(t, func(args []string) string {
			if args[0] == "subscribe" {
				attempts.Add(1)
				return redistest.HangUp
			}
			return redistest.Usual
		})
		begun := time.Now()
		h.Ensure("emails", h.endpoint, list("emails"))
		h.Eventually(attempts.Load).WithTimeout(timeout).Should(BeEquivalentTo(5))
		h.Expect(time.Since(begun)).To(BeNumerically(">=", 4*250*time.Millisecond))
	})
}

// A session cannot work with a server that answers only PING.
func TestASubscriptionThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		h := newPiped(t, func(args []string) string {
			if args[0] == "subscribe" && attempts.Add(1) <= 3 {
				return redistest.Nothing
			}
			return redistest.Usual
		}, impatient)
		h.Ensure("emails", h.endpoint, list("emails"))
		h.Eventually(h.recorded.subscribed.Load).WithTimeout(timeout).Should(BeTrue())
		h.Expect(attempts.Load()).To(BeEquivalentTo(4))
	})
}

func TestTransitionsAreLoggedAndNothingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		var hangUp atomic.Bool
		h := newPiped(t, func(args []string) string {
			switch {
			case args[0] == "config":
				return listFlags
			case args[0] == "ping" && hangUp.CompareAndSwap(true, false):
				return redistest.HangUp
			case args[0] == "subscribe":
				pushes := strings.Repeat(redistest.Push("message", args[1], "lpush"), 100)
				return redistest.UsualAnswer(args) + pushes
			}
			return redistest.Usual
		}, func(w *harness) { w.options.Log = log })
		for _, key := range []string{"emails", "other"} {
			h.Ensure(key, h.endpoint, list(key))
			h.eventuallyWoken(key, coalesce.Growth, 1)
		}
		for round := range int32(3) {
			hangUp.Store(true)
			h.Eventually(h.recorded.ended.Load).WithTimeout(timeout).Should(Equal(round + 1))
			h.Eventually(h.recorded.subscribed.Load).WithTimeout(timeout).Should(BeTrue())
		}
		time.Sleep(time.Minute) // The setting is read many times.
		mu.Lock()
		defer mu.Unlock()
		h.Expect(lines).To(Equal(map[string]int{"Subscribed to": 4, "Not subscribed to": 3, "Read notify-keyspace-events": 1}))
	})
}
