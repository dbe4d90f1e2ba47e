// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// The server was replaced, and the session moves to the new one before anything is confirmed there. Evidence from the
// old server must not count for the new one.
func TestEvidenceBeginsAnewWithTheFirstConfirmation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var replaced, hangUp, waiting, renewed atomic.Bool
		server := redistest.NewPiped(func(args []string) string {
			switch {
			case args[0] == "hello" && slices.Contains(args, "p1"):
				renewed.Store(true)
			case args[0] == "config":
				return "-ERR this service has no CONFIG\r\n"
			case args[0] == "ping" && hangUp.CompareAndSwap(true, false):
				return redistest.HangUp
			case args[0] == "subscribe" && !replaced.Load():
				return redistest.Push("subscribe", args[1], 1) + redistest.Push("message", args[1], "lpush")
			case args[0] == "subscribe" && !renewed.Load():
				waiting.Store(true)
				return redistest.Nothing
			}
			return redistest.Usual
		})
		secret := &passwordSecret{value: "p0"}
		options := connection.Options{Dial: server.Dial, Secrets: secret, LookAgain: 50 * time.Millisecond}
		h := newHarnessOn(t, withPassword, options)
		h.Ensure("emails", withPassword, list("emails"))
		h.eventuallyJudged("emails", verify.ReasonSubscribed)

		replaced.Store(true)
		hangUp.Store(true)
		h.Eventually(waiting.Load).WithTimeout(timeout).Should(BeTrue())
		secret.set("p1")
		h.eventuallyJudged("emails", verify.ReasonUnverified)
	})
}

// The subscription moves to a new connection, which ends before anything is confirmed there. From then on nothing is announced.
func TestASubscriptionThatIsLostWhileItMovesWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var renewed atomic.Bool
		server := redistest.NewPiped(func(args []string) string {
			switch {
			case args[0] == "hello" && slices.Contains(args, "p1"):
				renewed.Store(true)
			case args[0] == "config":
				return "-ERR this service has no CONFIG\r\n"
			case args[0] == "subscribe" && renewed.Load():
				return redistest.HangUp
			case args[0] == "subscribe":
				return redistest.Push("subscribe", args[1], 1) + redistest.Push("message", args[1], "lpush")
			}
			return redistest.Usual
		})
		secret := &passwordSecret{value: "p0"}
		options := connection.Options{Dial: server.Dial, Secrets: secret, LookAgain: 50 * time.Millisecond}
		h := newHarnessOn(t, withPassword, options)
		h.Ensure("emails", withPassword, list("emails"))
		h.eventuallyJudged("emails", verify.ReasonSubscribed)
		secret.set("p1")
		h.eventuallyWoken("emails", coalesce.Lost, 1)
	})
}
