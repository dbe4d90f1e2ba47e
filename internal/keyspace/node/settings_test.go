// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// noFlags is the reply of a server that publishes no events.
const noFlags = "%1\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n"

// inspect has a node read the setting of a scripted server until the test ends, for a list. It runs in a bubble.
func inspect(t *testing.T, script redistest.Script, configure bool) *Node {
	t.Helper()
	pool := connection.NewPool(connection.Options{Dial: redistest.NewPiped(script).Dial})
	n := New(Options{
		Conn: pool.Conn(auth.Endpoint{Address: "redis:6379"}, 0), Wake: func(ID, coalesce.Cause) { /* nobody reads */ },
		Configure: configure, Setting: NewSettingLock(), Recorder: &harness{}, Timing: DefaultTiming(), Log: logr.Discard(),
	})
	n.Watch("emails", named("a"), byNotifications, false)
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { n.inspectSetting(t.Context()) })
	t.Cleanup(running.Wait)
	return n
}

// verdict returns the verdict for a list that has been subscribed to for long, without events.
func verdict(inspector *Node) verify.Verdict {
	subscribed := verify.Subscription{Present: true, Since: time.Now().Add(-time.Hour)}
	key := verify.Key{Class: verify.ClassList, Subscription: subscribed, Audit: &verify.Audit{}}
	verdict, _ := verify.Judge(inspector.Evidence(), key, inspector.Classes, time.Now())
	return verdict
}

func TestUntilAsking(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(untilAsking(verify.Setting{}, false)).To(Equal(settingInterval), "the server did not answer")
	g.Expect(untilAsking(verify.Setting{Readable: true, Flags: "Kl"}, true)).To(Equal(settingInterval))
	g.Expect(untilAsking(verify.Setting{}, true)).To(Equal(failure.RejectedRetry), "the server logs each rejected command")
	g.Expect(untilAsking(verify.Setting{Readable: true, Refused: true}, true)).To(Equal(failure.RejectedRetry))
}

// A reply that cannot be parsed does not count, and does no harm.
func TestOddAnswersToTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   verify.Reason
	}{
		"nothing":            {"*0\r\n", verify.ReasonUnverified},
		"another parameter":  {"%1\r\n$4\r\nsave\r\n$0\r\n\r\n", verify.ReasonUnverified},
		"a refusal":          {"-ERR this service has no CONFIG\r\n", verify.ReasonUnverified},
		"no flags":           {noFlags, verify.ReasonNotConfigured},
		"flags and nonsense": {"%1\r\n$22\r\nnotify-keyspace-events\r\n$7\r\n<b>K\xfflA\r\n", verify.ReasonSubscribed},
		"a number":           {":1\r\n", verify.ReasonUnverified},
		"no answer at all":   {redistest.Nothing, verify.ReasonUnverified},
		"no Redis":           {"hello\r\n", verify.ReasonUnverified},
		"the end":            {redistest.HangUp, verify.ReasonUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				var asked atomic.Int32
				inspector := inspect(t, func(args []string) string {
					if args[0] == "config" {
						asked.Add(1)
						return c.answer
					}
					return redistest.Usual
				}, false)
				g.Eventually(asked.Load).WithTimeout(timeout).Should(BeNumerically(">=", 1))
				g.Eventually(func() verify.Reason { return verdict(inspector).Reason }).WithTimeout(timeout).Should(Equal(c.want))
				g.Expect(inspector.options.Conn.Do(t.Context(), func(ctx context.Context, client connection.Client) error {
					return client.LLen(ctx, "emails").Err()
				})).To(Succeed(), "other commands still work")
			})
		})
	}
}

// A service may reply OK and change nothing.
func TestASettingThatWasNotTakenIsNotBelieved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inspector := inspect(t, func(args []string) string {
			switch {
			case args[0] != "config":
				return redistest.Usual
			case args[1] == "get":
				return noFlags
			default:
				return "+OK\r\n"
			}
		}, true)
		NewWithT(t).Eventually(func() verify.Verdict { return verdict(inspector) }).WithTimeout(timeout).Should(Equal(
			verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true}))
	})
}
