// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// reaction is what a server does instead of its usual reply to a command, on a connection. It reports whether it goes
// on with the next command.
type reaction func(ctx context.Context, conn net.Conn, usual string) (goesOn bool)

func says(text string) reaction {
	return func(_ context.Context, conn net.Conn, _ string) bool {
		_, err := io.WriteString(conn, text)
		return err == nil
	}
}

func endsAfter(text string) reaction {
	return func(_ context.Context, conn net.Conn, _ string) bool {
		_, _ = io.WriteString(conn, text)
		return false
	}
}

// answersLate is a server that takes 900 ms for a reply.
func answersLate(ctx context.Context, conn net.Conn, usual string) bool {
	pause(ctx, 900*time.Millisecond)
	return says(usual)(ctx, conn, usual)
}

// fallsSilent is a server that takes all that comes after its reply, and says nothing.
func fallsSilent(_ context.Context, conn net.Conn, usual string) bool {
	_, _ = io.WriteString(conn, usual)
	_, _ = io.Copy(io.Discard, conn)
	return false
}

// stopsReading is a server that takes nothing after its reply, and sends a message that never ends.
func stopsReading(ctx context.Context, conn net.Conn, usual string) bool {
	_, err := io.WriteString(conn, usual+">2\r\n+invalidate\r\n*1\r\n$10000\r\n")
	for ; err == nil; pause(ctx, 100*time.Millisecond) {
		_, err = io.WriteString(conn, "x")
	}
	return false
}

// trackingAnswer is the reply of a server that tracks keys and has lists of three messages.
func trackingAnswer(args []string) string {
	switch args[0] {
	case "client":
		return "+OK\r\n"
	case "llen":
		return ":3\r\n"
	default:
		return redistest.UsualAnswer(args)
	}
}

// One server misbehaves for a while, for reads and for messages. A server of another namespace is watched and read as
// before, and afterwards nothing is missed of the first one.
func TestAServerThatMisbehavesHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		to    string // the command, or any
		reply reaction
	}{
		"a greeting of gigabytes":                  {"hello", says("%4294967296\r\n")},
		"a length of gigabytes":                    {"llen", says("$4294967296\r\n")},
		"lengths of gigabytes":                     {"llen", says("*4294967296\r\n")},
		"attributes of gigabytes":                  {"llen", says("|4294967296\r\n")},
		"a confirmation of gigabytes":              {"subscribe", says(">3\r\n+subscribe\r\n$4294967296\r\n")},
		"a greeting a thousand deep":               {"hello", says(strings.Repeat("%1\r\n+proto\r\n", 1000))},
		"a length a thousand deep":                 {"llen", says(strings.Repeat("*1\r\n", 1000))},
		"a confirmation a thousand deep":           {"subscribe", says(strings.Repeat(">1\r\n", 1000))},
		"a reply too many":                         {"llen", says(":3\r\n:3\r\n")},
		"replies in another order":                 {"subscribe", says("+OK\r\n")},
		"the end in a greeting":                    {"hello", endsAfter("%1\r\n+pro")},
		"the end in a length":                      {"llen", endsAfter(":3")},
		"the end in a confirmation":                {"subscribe", endsAfter(">3\r\n+subscr")},
		"silence":                                  {"", fallsSilent},
		"silence once it tracks":                   {"client", fallsSilent},
		"silence once it is subscribed to":         {"subscribe", fallsSilent},
		"a message before the greeting":            {"hello", says(">2\r\n+invalidate\r\n_\r\n%1\r\n+proto\r\n:3\r\n")},
		"each reply after 900 ms":                  {"", answersLate},
		"nothing is read after a greeting":         {"hello", stopsReading},
		"nothing is read once it tracks":           {"client", stopsReading},
		"nothing is read once it is subscribed to": {"subscribe", stopsReading},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var well atomic.Bool
				var misbehaved atomic.Int32
				bad := func(conn net.Conn) {
					for args := range redistest.Commands(conn) {
						reply := says(trackingAnswer(args))
						if !well.Load() && (c.to == "" || c.to == args[0]) {
							misbehaved.Add(1)
							reply = c.reply
						}
						if !reply(t.Context(), conn, trackingAnswer(args)) {
							return
						}
					}
				}
				h := newPair(t, bad)
				h.Eventually(misbehaved.Load).Should(BeNumerically(">=", 2))
				before := h.count("letters", coalesce.Growth)
				time.Sleep(30 * time.Second)
				h.Expect(h.count("letters", coalesce.Growth)).To(BeNumerically(">=", before+5))
				h.Expect(h.State("letters").Reason).To(Equal(verify.ReasonSubscribed))
				h.Expect(h.depth("letters")).To(BeEquivalentTo(7))

				well.Store(true)
				h.Eventually(h.tracking).WithArguments("emails").WithPolling(100 * time.Millisecond).
					Should(Equal(verify.TrackedUnproven))
				h.Expect(h.present("emails")).To(BeTrue())
				h.eventually("emails", 3)
				h.Expect(h.missed.Load()).To(BeZero(), "reads of the other server that failed")
			})
		})
	}
}

// pair is a watcher of a server with the queue emails, and of another one with the queue letters, which is notified
// about every two seconds.
type pair struct {
	*harness
	missed atomic.Int32 // reads of the queue letters that failed
}

// newPair runs a watcher of both in a bubble.
func newPair(t *testing.T, serve func(net.Conn)) *pair {
	t.Helper()
	well := redistest.NewPiped(func(args []string) string {
		switch args[0] {
		case "ping":
			return redistest.Push("message", channelPrefix+"letters", "lpush") + "+PONG\r\n"
		case "llen":
			return ":7\r\n"
		}
		return trackingAnswer(args)
	})
	other := auth.Endpoint{Address: "other:6379"}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == other.Address {
			return well.Dial(ctx, network, address)
		}
		return redistest.Pipe(serve), nil
	}
	p := &pair{}
	p.harness = newHarnessOn(t, auth.Endpoint{Address: "redis:6379"}, connection.Options{Dial: dial}, func(h *harness) {
		h.options.Timing.AnswerWithin = node.DefaultTiming().AnswerWithin
		h.serve = func(ctx context.Context, woken coalesce.Wake) {
			if woken.ID == named("letters") {
				p.readOnce(ctx, woken, other)
			} else {
				p.readOnce(ctx, woken, p.endpoint)
			}
		}
	})
	p.Ensure("letters", other, list("letters"))
	p.Ensure("emails", p.endpoint, list("emails"))
	return p
}

// readOnce reads the queue of an id, as a reconcile does. Each id is of a namespace of its own.
func (p *pair) readOnce(ctx context.Context, woken coalesce.Wake, e auth.Endpoint) {
	counts, err := p.reader.Observe(ctx, queue.Source{
		Tenant: woken.ID.Name, Endpoint: e, Queues: []queue.Queue{{Key: woken.ID.Name, Type: queue.List}},
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakes = append(p.wakes, woken)
	switch {
	case err == nil:
		p.seen[woken.ID.Name] = counts[0].Waiting
	case e != p.endpoint:
		p.missed.Add(1)
	}
}
