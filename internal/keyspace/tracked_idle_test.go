// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// A key that an idle id begins to watch is read once a second, like those that it watches already.
func TestAKeyThatAnIdleIDBeginsToWatchIsReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := newPiped(t, func(args []string) string {
			switch args[0] {
			case "hello":
				return "%1\r\n+proto\r\n:3\r\n"
			case "client":
				return "+OK\r\n"
			case "llen":
				if args[1] != "later" {
					return ":0\r\n"
				}
				length := ":0\r\n" // It changes all the time.
				if reads.Add(1)%2 == 0 {
					length = ":1\r\n"
				}
				return length + ">2\r\n+invalidate\r\n*1\r\n+later\r\n"
			}
			return redistest.Usual
		}, func(w *harness) { w.serve = func(context.Context, coalesce.Wake) { /* nobody reads */ } })
		h.Track("emails", h.endpoint, list("emails"))
		h.SetIdle(named("emails"), true)
		time.Sleep(time.Second)
		h.Track("emails", h.endpoint, list("emails"), list("later"))
		time.Sleep(10*time.Second + time.Millisecond)
		h.Expect(reads.Load()).To(And(BeNumerically(">=", 10), BeNumerically("<=", 12)))
	})
}
