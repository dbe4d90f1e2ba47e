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

// inspected is a node that reads the setting of its server. changed is set when it marks those who watch its keys.
type inspected struct {
	*Node
	changed coalesce.Signal
}

// inspect reads the setting of the server at addr until the test ends, for keys of these classes.
func inspect(t *testing.T, addr string, configure bool, classes ...verify.Class) *inspected {
	t.Helper()
	return inspectOn(t, auth.Endpoint{Address: addr}, connection.Options{}, configure, classes...)
}

// inspectPiped is inspect with a scripted server, in a synctest bubble.
func inspectPiped(t *testing.T, script redistest.Script, configure bool, classes ...verify.Class) *inspected {
	t.Helper()
	dial := redistest.NewPiped(script).Dial
	return inspectOn(t, auth.Endpoint{Address: "redis:6379"}, connection.Options{Dial: dial}, configure, classes...)
}

func inspectOn(
	t *testing.T, endpoint auth.Endpoint, options connection.Options, configure bool, classes ...verify.Class,
) *inspected {
	t.Helper()
	pool := connection.NewPool(options)
	is := &inspected{changed: coalesce.NewSignal()}
	is.Node = New(Options{
		Conn: pool.Conn(endpoint, 0), Wake: func(ID, coalesce.Cause) { is.changed.Set() },
		Configure: configure, Setting: NewSettingLock(), Recorder: &harness{}, Timing: DefaultTiming(), Log: logr.Discard(),
	})
	for _, class := range classes {
		is.Watch(string(class), named("a"), Interest{Class: class, Notify: true}, false)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { is.inspectSetting(t.Context()) })
	t.Cleanup(running.Wait)
	return is
}

// verdict returns the verdict for a list that has been subscribed to for long, without events.
func verdict(inspector *inspected) verify.Verdict {
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
				inspector := inspectPiped(t, func(args []string) string {
					if args[0] == "config" {
						asked.Add(1)
						return c.answer
					}
					return redistest.Usual
				}, false, verify.ClassList)
				g.Eventually(asked.Load).WithTimeout(timeout).Should(BeNumerically(">=", 1))
				g.Eventually(func() verify.Reason { return verdict(inspector).Reason }).WithTimeout(timeout).Should(Equal(c.want))
				g.Expect(inspector.options.Conn.Do(t.Context(), func(ctx context.Context, client connection.Client) error {
					return client.LLen(ctx, "emails").Err()
				})).To(Succeed(), "other commands still work")
			})
		})
	}
}

func TestAChangedSettingIsReported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	inspector := inspect(t, server.Addr(), false, verify.ClassList)
	g.Eventually(inspector.changed).WithTimeout(timeout).Should(Receive())
	g.Expect(verdict(inspector).Reason).To(Equal(verify.ReasonSubscribed))
	g.Expect(server.Client().ConfigSet(t.Context(), verify.Parameter, "").Err()).To(Succeed())
	g.Eventually(inspector.changed).WithTimeout(timeout).Should(Receive(), "the setting is read again")
	g.Expect(verdict(inspector)).To(Equal(verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg"}))
}

// A service may reply OK and change nothing.
func TestASettingThatWasNotTakenIsNotBelieved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inspector := inspectPiped(t, func(args []string) string {
			switch {
			case args[0] != "config":
				return redistest.Usual
			case args[1] == "get":
				return noFlags
			default:
				return "+OK\r\n"
			}
		}, true, verify.ClassList)
		NewWithT(t).Eventually(func() verify.Verdict { return verdict(inspector) }).WithTimeout(timeout).Should(Equal(
			verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true}))
	})
}

func TestFlagsAreAddedForTheClassesThatAreWatched(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{Events: "xl"})
	inspect(t, server.Addr(), true, verify.ClassStream, verify.ClassHash)
	g.Eventually(func() (verify.Flags, error) {
		answer, err := server.Client().ConfigGet(t.Context(), verify.Parameter).Result()
		return verify.Flags(answer[verify.Parameter]).Known(), err
	}).WithTimeout(timeout).Should(BeEquivalentTo("Klghtx"))
}
