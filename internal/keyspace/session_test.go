// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// forbidden is the error reply of Redis for a channel without permission.
const forbidden = "-NOPERM No permissions to access a channel\r\n"

// impatientTiming has short intervals, for servers that do not answer.
func impatientTiming() timing {
	return timing{pingAfter: 100 * time.Millisecond, answerWithin: 500 * time.Millisecond, forbiddenRetry: time.Hour, refusedRetry: time.Millisecond}
}

// held is a running session.
type held struct {
	Gomega
	*channelSet
	stop context.CancelFunc
	// ended receives the end of the session.
	ended chan end

	mu sync.Mutex
	// marks has all marks, each as "id Cause".
	marks []string
}

type end struct {
	confirmed bool
	err       error
}

// hold runs a session with one id, "a", that watches these channels. It waits for answers as long as a test does.
func hold(t *testing.T, addr string, channels ...string) *held {
	t.Helper()
	timing := defaultTiming()
	timing.answerWithin = timeout
	return holdOn(t, auth.Endpoint{Address: addr}, connection.Options{}, timing, channels...)
}

// holdPiped is hold with a scripted server, in a synctest bubble.
func holdPiped(t *testing.T, script redistest.Script, timing timing, channels ...string) *held {
	t.Helper()
	dial := redistest.NewPiped(script).Dial
	return holdOn(t, auth.Endpoint{Address: "redis:6379"}, connection.Options{Dial: dial}, timing, channels...)
}

func holdOn(t *testing.T, endpoint auth.Endpoint, options connection.Options, timing timing, channels ...string) *held {
	t.Helper()
	h := &held{Gomega: NewWithT(t), ended: make(chan end, 1)}
	h.channelSet = newChannelSet(func(id ID, cause coalesce.Cause) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.marks = append(h.marks, id.Name+" "+cause.String())
	}, &budget.Namespaces{})
	for _, channel := range channels {
		h.add(channel, named("a"))
	}
	pool := connection.NewPool(options)
	pubSub, err := pool.Conn(endpoint, 0).OpenPubSub(t.Context())
	h.Expect(err).NotTo(HaveOccurred())
	session := &session{pubSub: pubSub, supervisor: &supervisor{
		endpoint: endpoint, set: h.channelSet, evidence: &verify.Evidence{}, recorder: newRecorded(), received: func() {}, timing: timing, log: logr.Discard(),
		due: coalesce.NewSignal(),
	}}

	ctx, stop := context.WithCancel(t.Context())
	h.stop = stop
	var running sync.WaitGroup
	running.Go(func() {
		err := session.run(ctx)
		h.ended <- end{session.confirmed, err}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return h
}

func (h *held) marked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.marks)
}

// eventuallyPresent waits until the channels are subscribed to.
func (h *held) eventuallyPresent(channels ...string) {
	for _, channel := range channels {
		h.Eventually(func() bool { return h.state(channel).Present }).WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeTrue(), channel)
	}
}

// names returns this many names of channels.
func names(many int) []string {
	all := make([]string, many)
	for i := range all {
		all[i] = fmt.Sprint("c", i)
	}
	return all
}

func TestASessionSubscribesAndPassesMessagesOn(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := hold(t, server.Addr(), "c", "d")
	h.eventuallyPresent("c", "d")
	h.Expect(h.marked()).To(ConsistOf("a Confirmed", "a Confirmed"))
	h.Expect(server.Client().Publish(t.Context(), "c", "hello").Err()).To(Succeed())
	h.Eventually(h.marked).WithTimeout(timeout).Should(ContainElement("a Growth"), "an unknown event counts as growth")

	h.remove("c", named("a"))
	h.add("e", named("a"))
	h.eventuallyPresent("e")
	h.Eventually(func() ([]string, error) { return server.Client().PubSubChannels(t.Context(), "*").Result() }).
		WithTimeout(timeout).Should(ConsistOf("d", "e"), "c is not watched any longer")
}

func TestTheEndOfASessionMarksWhatWasSubscribedTo(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := hold(t, server.Addr(), "c")
	h.eventuallyPresent("c")
	h.stop()
	var got end
	h.Eventually(h.ended).WithTimeout(timeout).Should(Receive(&got))
	h.Expect(got.confirmed).To(BeTrue())
	h.Expect(got.err).To(MatchError(context.Canceled))
	h.Expect(h.marked()).To(HaveExactElements("a Confirmed", "a Lost"))
	h.Expect(h.state("c").Present).To(BeFalse())
}

func TestASessionEndsWhenTheServerMisbehaves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string // reply to SUBSCRIBE
		want   types.GomegaMatcher
	}{
		"no answer":                       {redistest.Nothing, MatchError(errUnanswered)},
		"no answer among many messages":   {strings.Repeat(redistest.Push("message", "c", "lpush"), 10), MatchError(errUnanswered)},
		"a confirmation nobody asked for": {redistest.Push("subscribe", "other", 1), MatchError(errUnexpected)},
		"a confirmation of something":     {redistest.Push("unsubscribe", "c", 0), MatchError(errUnexpected)},
		"a pong nobody asked for":         {"+PONG\r\n", MatchError(errUnexpected)},
		"something else":                  {">2\r\n+invalidate\r\n_\r\n", HaveOccurred()},
		"a number":                        {":1\r\n", HaveOccurred()},
		"two errors":                      {"-NOPERM a\r\n-NOPERM b\r\n", MatchError(errUnexpected)},
		"a broken message":                {">1\r\n+message\r\n", HaveOccurred()},
		"refused credentials":             {"-NOAUTH Authentication required.\r\n", MatchError(ContainSubstring("NOAUTH"))},
		"the end":                         {redistest.HangUp, HaveOccurred()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := func(args []string) string {
					if args[0] == "subscribe" {
						return test.answer
					}
					return redistest.Usual
				}
				h := holdPiped(t, script, impatientTiming(), "c")
				var got end
				h.Eventually(h.ended).WithTimeout(timeout).Should(Receive(&got))
				h.Expect(got.err).To(test.want)
				h.Expect(got.confirmed).To(BeFalse())
				h.Expect(h.marked()).NotTo(ContainElement(Or(Equal("a Confirmed"), Equal("a Lost"))), "nothing was subscribed to")
			})
		})
	}
}

// UNSUBSCRIBE needs no permission, so a server cannot reject it.
func TestAnErrorToAnUnsubscribeEndsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := func(args []string) string {
			if args[0] == "unsubscribe" {
				return "-ERR no\r\n"
			}
			return redistest.Usual
		}
		h := holdPiped(t, script, defaultTiming(), "c")
		h.eventuallyPresent("c")
		h.remove("c", named("a"))
		var got end
		h.Eventually(h.ended).WithTimeout(timeout).Should(Receive(&got))
		h.Expect(got.err).To(MatchError(errUnexpected))
	})
}

func TestARefusalThatIsNotForGood(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"BUSY Redis is busy", "LOADING Redis is loading", "ERR anything"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				script := func(args []string) string {
					if args[0] == "subscribe" && asked.Add(1) <= 2 {
						return "-" + refusal + "\r\n"
					}
					return redistest.Usual
				}
				h := holdPiped(t, script, impatientTiming(), "c", "d")
				h.eventuallyPresent("c", "d")
				h.Expect(h.ended).NotTo(Receive())
				h.Expect(asked.Load()).To(BeEquivalentTo(3), "only a command without permission is split")
			})
		})
	}
}

// A user may lack the permission for PING. The session does not need it.
func TestARefusedPingIsAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pings atomic.Int32
		script := func(args []string) string {
			if args[0] == "ping" {
				pings.Add(1)
				return "-NOPERM this user has no permissions to run the 'ping' command\r\n"
			}
			return redistest.Usual
		}
		timing := impatientTiming()
		timing.pingAfter = 10 * time.Millisecond
		h := holdPiped(t, script, timing, "c")
		h.eventuallyPresent("c")
		h.Eventually(pings.Load).WithTimeout(timeout).Should(BeNumerically(">", 5), "the session sends PING again and again")
		h.Expect(h.ended).NotTo(Receive())
	})
}

func TestAForbiddenChannelIsFoundInFewCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const secret = "c77"
		var mu sync.Mutex
		var sizes []int // number of channels in each SUBSCRIBE
		script := func(args []string) string {
			if args[0] != "subscribe" {
				return redistest.Usual
			}
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(args)-1)
			if slices.Contains(args, secret) {
				return forbidden
			}
			return redistest.Usual
		}
		channels := names(600)
		h := holdPiped(t, script, defaultTiming(), channels...)
		h.eventuallyPresent(slices.DeleteFunc(channels, func(name string) bool { return name == secret })...)
		h.Eventually(func() bool { return h.state(secret).Forbidden }).WithTimeout(timeout).Should(BeTrue())
		mu.Lock()
		defer mu.Unlock()
		h.Expect(slices.Max(sizes)).To(Equal(maxChannels), "servers limit the number of arguments")
		// There are three commands, and two more for each time that the command with the forbidden channel is halved.
		h.Expect(len(sizes)).To(BeNumerically("<=", 3+2*8))
		h.Expect(h.ended).NotTo(Receive())
	})
}

func TestAForbiddenChannelIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var granted atomic.Bool
		script := func(args []string) string {
			if args[0] == "subscribe" && !granted.Load() {
				return forbidden
			}
			return redistest.Usual
		}
		timing := impatientTiming()
		timing.forbiddenRetry = 10 * time.Millisecond
		h := holdPiped(t, script, timing, "c")
		h.Eventually(func() bool { return h.state("c").Forbidden }).WithTimeout(timeout).Should(BeTrue())
		granted.Store(true)
		h.eventuallyPresent("c")
		h.Expect(h.state("c").Forbidden).To(BeFalse())
		h.Expect(h.ended).NotTo(Receive())
	})
}
