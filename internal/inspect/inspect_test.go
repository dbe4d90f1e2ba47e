// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/redisaccess"
	"miracle.dev/scaledjob-operator/internal/redisconn"
	"miracle.dev/scaledjob-operator/internal/wakeup"
	"miracle.dev/scaledjob-operator/test/redistest"
)

// timeout is how long a test waits for something that has to happen.
const timeout = 30 * time.Second

// noFlags is how a server says that it publishes nothing.
const noFlags = "%1\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n"

func TestMain(m *testing.M) {
	redisconn.RedirectLogs(logr.Discard())
	goleak.VerifyTestMain(m)
}

// start runs an inspector of the server at addr until the test ends, for keys of some classes.
// A session has begun.
func start(t *testing.T, addr string, configure bool, classes ...proof.Class) *Inspector {
	t.Helper()
	endpoint, err := redisaccess.ParseEndpoint(addr)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	pool := redisconn.NewPool(redisconn.Options{})
	inspector := &Inspector{
		Conn: pool.Conn(endpoint, 0), Evidence: &proof.Evidence{}, Changed: wakeup.NewSignal(),
		Configure: configure, Classes: func() []proof.Class { return classes }, Log: logr.Discard(),
	}
	began := wakeup.NewSignal()
	began.Set()
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { inspector.Run(t.Context(), began) })
	t.Cleanup(running.Wait)
	return inspector
}

// verdict is that on a list which has been subscribed to for long, of which no event came.
func verdict(inspector *Inspector) proof.Verdict {
	subscribed := proof.Subscription{Present: true, Since: time.Now().Add(-time.Hour)}
	key := proof.Key{Class: proof.ClassList, Subscription: subscribed, Audit: &proof.Audit{}}
	return proof.Judge(inspector.Evidence, []proof.Key{key}, slices.Values(inspector.Classes()), time.Now())
}

func TestUntilAsking(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(untilAsking(proof.Setting{}, false)).To(Equal(askAgain), "no answer")
	g.Expect(untilAsking(proof.Setting{Readable: true, Flags: "Kl"}, true)).To(Equal(askAgain))
	g.Expect(untilAsking(proof.Setting{}, true)).To(Equal(refusedAgain), "each refusal is logged by the server")
	g.Expect(untilAsking(proof.Setting{Readable: true, Refused: true}, true)).To(Equal(refusedAgain))
}

// What can't be understood is no answer that counts, and harms nobody.
func TestOddAnswersToTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   proof.Reason
	}{
		"nothing":            {"*0\r\n", proof.ReasonUnverified},
		"another parameter":  {"%1\r\n$4\r\nsave\r\n$0\r\n\r\n", proof.ReasonUnverified},
		"a refusal":          {"-ERR this service has no CONFIG\r\n", proof.ReasonUnverified},
		"no flags":           {noFlags, proof.ReasonNotConfigured},
		"flags and nonsense": {"%1\r\n$22\r\nnotify-keyspace-events\r\n$7\r\n<b>K\xfflA\r\n", proof.ReasonSubscribed},
		"a number":           {":1\r\n", proof.ReasonUnverified},
		"no answer at all":   {redistest.Nothing, proof.ReasonUnverified},
		"no Redis":           {"hello\r\n", proof.ReasonUnverified},
		"the end":            {redistest.HangUp, proof.ReasonUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var asked atomic.Int32
			server := redistest.NewScripted(t, func(args []string) string {
				if args[0] == "config" {
					asked.Add(1)
					return c.answer
				}
				return redistest.Usual
			})
			inspector := start(t, server.Addr(), false, proof.ClassList)
			g.Eventually(asked.Load).WithTimeout(timeout).Should(BeNumerically(">=", 1))
			g.Eventually(func() proof.Reason { return verdict(inspector).Reason }).WithTimeout(timeout).Should(Equal(c.want))
			g.Expect(inspector.Conn.Do(t.Context(), func(ctx context.Context, client redis.Cmdable) error {
				return client.LLen(ctx, "emails").Err()
			})).To(Succeed(), "everything else works")
		})
	}
}

func TestNewsIsTold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	inspector := start(t, server.Addr(), false, proof.ClassList)
	g.Eventually(inspector.Changed).WithTimeout(timeout).Should(Receive())
	g.Expect(verdict(inspector).Reason).To(Equal(proof.ReasonSubscribed))
	g.Expect(server.Client().ConfigSet(t.Context(), proof.Parameter, "").Err()).To(Succeed())
	g.Eventually(inspector.Changed).WithTimeout(timeout).Should(Receive(), "it is asked again")
	g.Expect(verdict(inspector)).To(Equal(proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg"}))
}

// A service may say OK and do nothing.
func TestASettingThatWasNotTakenIsNotBelieved(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] != "config":
			return redistest.Usual
		case args[1] == "get":
			return noFlags
		default:
			return "+OK\r\n"
		}
	})
	inspector := start(t, server.Addr(), true, proof.ClassList)
	g.Eventually(func() proof.Verdict { return verdict(inspector) }).WithTimeout(timeout).Should(Equal(
		proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true}))
}

func TestFlagsAreAddedForTheClassesThatAreWatched(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{Events: "xl"})
	start(t, server.Addr(), true, proof.ClassStream, proof.ClassHash)
	g.Eventually(func() (proof.Flags, error) {
		answer, err := server.Client().ConfigGet(t.Context(), proof.Parameter).Result()
		return proof.Flags(answer[proof.Parameter]).Known(), err
	}).WithTimeout(timeout).Should(BeEquivalentTo("Klghtx"))
}
