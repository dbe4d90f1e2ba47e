// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// outage is a server with tracked keys, reached through a proxy.
type outage struct {
	*harness
	server *redistest.Server
	way    *tcpproxy.Proxy
	keys   []string
}

// impatientTracking returns intervals for servers that do not answer.
func impatientTracking() node.Timing {
	timing := shortened()
	timing.PingAfter, timing.AnswerWithin = 100*time.Millisecond, 2*time.Second
	timing.ForbiddenRetry = time.Hour // Nothing is forbidden.
	return timing
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	o := &outage{server: server, way: tcpproxy.New(t, server.Addr())}
	o.harness = newHarness(t, o.way.Addr(), func(w *harness) { w.options.Timing = impatientTracking() })
	for i := range 50 {
		key := "queue-" + strconv.Itoa(i)
		o.keys = append(o.keys, key)
		o.Track(key, o.endpoint, list(key))
	}
	o.push()
	o.allTracked()
	return o
}

func (o *outage) push() {
	for i, key := range o.keys {
		do(o.t, o.server, "lpush", key, i)
	}
}

// allTracked waits until all keys are tracked and the last wakes have read what the server has.
func (o *outage) allTracked() {
	o.t.Helper()
	for _, key := range o.keys {
		o.Eventually(o.tracking).WithArguments(key).
			WithPolling(time.Millisecond).Should(BeNumerically(">=", verify.TrackedUnproven), key)
	}
	o.allSeen()
}

// untracked waits until the end of the session was noticed.
func (o *outage) untracked() {
	o.t.Helper()
	o.eventuallyTracked(o.keys[0], verify.NotTracked)
}

func (o *outage) allSeen() {
	o.t.Helper()
	for _, key := range o.keys {
		length := must.Get(o.server.Client().LLen(o.t.Context(), key).Result())(o)
		o.eventually(key, length)
	}
}

// No depth is read here except after a wake, so a push that is not reported stays missed.
func TestNothingIsMissedWhenAServerOfTrackedKeysFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*outage){
		"killed connections": func(o *outage) {
			o.Expect(o.server.KillTracking(o.t.Context())).Error().NotTo(HaveOccurred())
			o.push()
		},
		"no answers":          func(o *outage) { o.way.Strand(tcpproxy.ToClient); o.push() },
		"reset in the middle": func(o *outage) { o.way.CutAfter(700); o.push() },
		"restarted with data": func(o *outage) {
			o.push()
			do(o.t, o.server, "save")
			o.Expect(o.server.RestartSaved(o.t.Context())).To(Succeed())
		},
		"too many clients": func(o *outage) {
			do(o.t, o.server, "config", "set", "maxclients", 1)
			o.way.Cut()
			o.push()
			o.untracked()
			do(o.t, o.server, "config", "set", "maxclients", 1000)
		},
		"made a replica": func(o *outage) {
			other := redistest.New(o.t, redistest.Options{Events: redistest.NoEvents})
			do(o.t, other, "config", "set", "repl-diskless-sync-delay", 0)
			for i, key := range o.keys {
				for range i%7 + 3 {
					do(o.t, other, "lpush", key, i)
				}
			}
			host, port, err := net.SplitHostPort(other.Addr())
			o.Expect(err).NotTo(HaveOccurred())
			do(o.t, o.server, "replicaof", host, port)
			o.Eventually(func() int64 { return o.server.Client().LLen(o.t.Context(), o.keys[6]).Val() }).Should(BeEquivalentTo(9))
			for _, key := range o.keys {
				o.Eventually(o.depth).WithArguments(key).Should(BeNumerically(">=", 3))
			}
			do(o.t, other, "lpush", o.keys[0], 1)
			o.eventually(o.keys[0], 4)
			do(o.t, o.server, "replicaof", "no", "one")
			o.push()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t)
			fail(o)
			o.allSeen()
			o.allTracked()
			o.push()
			o.allSeen()
		})
	}
}

// Redis closes connections on which nothing was sent for so long. It spares subscribers only.
func TestATrackedConnectionIsClosedByTheTimeoutOfTheServerWithoutPings(t *testing.T) {
	h, server := newTracked(t, func(w *harness) {
		w.options.Timing = shortened()
		w.options.Timing.PingAfter = time.Hour
	})
	do(t, server, "config", "set", "timeout", 1)
	h.Track("emails", h.endpoint, list("emails"))
	h.eventuallyWoken("emails", coalesce.Lost, 1)
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
}

// Redis closes a connection that is idle for the setting timeout. A PING resets the idle time.
func TestPingsKeepATrackedConnectionFromBeingIdle(t *testing.T) {
	h, server := newTracked(t, func(w *harness) { w.options.Timing.PingAfter = 100 * time.Millisecond })
	const leastTimeout = 3 * time.Second // of a server, as the documents say
	h.Expect(node.DefaultTiming().PingAfter).To(BeNumerically("<", leastTimeout))
	h.Track("emails", h.endpoint, list("emails"))
	h.eventuallyTracked("emails", verify.TrackedUnproven)
	h.Eventually(func() string {
		clients := must.Get(server.Client().ClientList(t.Context()).Result())(h)
		return clients
	}).Should(MatchRegexp(` age=([2-9]|\d\d+) idle=0 flags=t .* cmd=ping `), "nothing else is sent on it")
	h.Expect(h.recorded.trackings.Load()).To(BeEquivalentTo(1))
}

// A server, or a proxy in front of it, may accept the tracking and never invalidate a key. Depths that grow disprove
// it.
func TestAServerThatNeverInvalidatesIsFoundByDepths(t *testing.T) {
	t.Parallel()
	for name, invalidates := range map[string]bool{"it never invalidates": false, "it invalidates": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var depth atomic.Int64
				h := newPiped(t, func(args []string) string {
					switch args[0] {
					case "client":
						return "+OK\r\n"
					case "llen":
						reply := fmt.Sprintf(":%d\r\n", depth.Load())
						if invalidates && depth.Load() < 5 { // After that the key is tracked and does not change.
							reply += ">2\r\n+invalidate\r\n*1\r\n+emails\r\n"
						}
						return reply
					}
					return redistest.Usual
				})
				h.Track("emails", h.endpoint, list("emails"))
				h.Eventually(h.tracking).WithArguments("emails").Should(BeNumerically(">=", verify.TrackedUnproven))
				missed := false
				grow := func() verify.Tracking {
					missed = h.Observed("emails", "emails", depth.Add(1), time.Now()) || missed
					return h.State("emails").Tracking
				}
				const everySo = 600 * time.Millisecond
				if invalidates {
					h.eventuallyTracked("emails", verify.Tracked)
					h.Consistently(grow).WithTimeout(8 * everySo).WithPolling(everySo).Should(Equal(verify.Tracked))
					return
				}
				h.Eventually(grow).WithPolling(everySo).Should(Equal(verify.NotTracked))
				h.Expect(missed).To(BeTrue())
				h.Expect(h.State("emails").Announced()).To(BeFalse())
			})
		})
	}
}

// A proxy may end silent connections so soon that there is never a verdict on notifications.
func TestKeysAreTrackedWhereNoSubscriptionLasts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		h := newPiped(t, func(args []string) string {
			switch args[0] {
			case "subscribe":
				silent.Store(true)
			case "ping":
				if silent.CompareAndSwap(true, false) {
					return redistest.HangUp
				}
			case "client":
				return "+OK\r\n"
			}
			return redistest.Usual
		}, func(w *harness) { w.options.Timing.SubscriberPingAfter = 300 * time.Millisecond })
		h.Ensure("emails", h.endpoint, list("emails"))
		h.eventuallyTracked("emails", verify.TrackedUnproven)
		h.Expect(h.State("emails").Reason).To(Equal(verify.Undecided))
		h.Expect(h.recorded.ended.Load()).To(BeNumerically(">=", 3))
	})
}
