// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const setting = "notify-keyspace-events"

// scripts are commands for both servers, which have to agree on their events and replies.
var scripts = map[string][]string{
	"push":        {"lpush q a", "rpush q b c d", "llen q", "lpush q", "rpush"},
	"pop":         {"lpop q", "rpush q a b c", "lpop q", "rpop q", "rpop q", "rpop q"},
	"pop several": {"lpop q 2", "rpush q a b c d", "lpop q 2", "lpop q 0", "rpop q 9", "rpop q 1", "lpop q -1"},
	"delete":      {"del q", "rpush q a", "del q", "del"},
	"look":        {"rpush q a", "llen q", "lrange q 0 -1", "lindex q 0", "type q", "ping"},
	"no events":   {"config set " + setting + " AK", "config get " + setting, "config set " + setting + " l", "rpush q a", "lpop q"},
	"one class":   {"config set " + setting + " Kl", "rpush q a", "lpop q", "config set " + setting + " Kg", "rpush q a", "lpop q"},
}

// The emulation is of use only as far as it does what Redis does.
func TestEmulatedEventsAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		for name, script := range scripts {
			t.Run(fmt.Sprintf("%s, RESP%d", name, protocol), func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				want, wantEvents := play(t, connect(t, redistest.New(t, redistest.Options{}).Addr(), protocol), script)
				got, gotEvents := play(t, connect(t, redistest.NewEmulated(t).Addr(), protocol), script)
				g.Expect(gotEvents).To(Equal(wantEvents))
				g.Expect(got).To(Equal(want))
			})
		}
	}
}

// connect returns a client that speaks a version of the protocol.
func connect(t *testing.T, addr string, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// play runs a script of commands, and returns replies and events.
func play(t *testing.T, client *redis.Client, script []string) (replies, events []string) {
	t.Helper()
	finish := recordEvents(t, client)
	for _, line := range script {
		reply, err := client.Do(t.Context(), arguments(line)...).Result()
		if err != nil { // The texts differ between versions of Redis.
			reply, _, _ = strings.Cut(err.Error(), " ")
		}
		replies = append(replies, fmt.Sprint(line, " -> ", reply))
	}
	return replies, finish()
}

func arguments(line string) (argv []any) {
	for word := range strings.FieldsSeq(line) {
		argv = append(argv, word)
	}
	return argv
}

// recordEvents returns a function that returns the events since.
func recordEvents(t *testing.T, client *redis.Client) func() []string {
	t.Helper()
	g := NewWithT(t)
	subscription := client.PSubscribe(t.Context(), "__keyspace@0__:*")
	g.Expect(subscription.ReceiveTimeout(t.Context(), timeout)).Error().NotTo(HaveOccurred())
	return func() []string {
		defer func() { _ = subscription.Close() }()
		g.Expect(client.Publish(t.Context(), "__keyspace@0__:", "end").Err()).To(Succeed())
		var events []string
		for {
			received := must.Get(subscription.ReceiveTimeout(t.Context(), timeout))(g)
			message := received.(*redis.Message)
			if message.Payload == "end" {
				return events
			}
			key := strings.TrimPrefix(message.Channel, "__keyspace@0__:")
			events = append(events, key+" "+message.Payload)
		}
	}
}

func TestEmulatedRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client := redistest.NewEmulated(t).Client()
	for _, command := range []string{"multi", "eval return(redis.call('lpop','q')) 0", "blpop q 1", "copy q p", "expire q 0", "flushall", "select 1"} {
		name, _, _ := strings.Cut(strings.ToUpper(command), " ")
		g.Expect(client.Do(t.Context(), arguments(command)...).Err()).To(MatchError(HaveSuffix("the emulated Redis does not know " + name)))
	}
}

// What Redis and the emulation send to a connection that tracks keys.
func TestEmulatedTrackingIsLikeThatOfRedis(t *testing.T) {
	t.Parallel()
	original := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	emulated := redistest.NewEmulated(t)
	for name, c := range map[string]struct {
		addr   string
		client *redis.Client
	}{"Redis": {original.Addr(), original.Client()}, "emulated": {emulated.Addr(), emulated.Client()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			conn := must.Get(net.Dial("tcp", c.addr))(g)
			defer func() { _ = conn.Close() }()
			g.Expect(conn.SetDeadline(time.Now().Add(timeout))).To(Succeed())
			replies := resp.NewReader(conn)
			ask := func(args ...string) any {
				g.Expect(conn.Write(resp.AppendCommand(nil, args...))).Error().NotTo(HaveOccurred())
				return must.Get(replies.Next())(g)
			}
			pushed := func() any {
				return must.Get(replies.Next())(g)
			}
			ask("hello", "3")
			g.Expect(ask("subscribe", "news")).To(Equal(resp.Push{"subscribe", "news", int64(1)}), "the same connection may track keys")
			g.Expect(ask("client", "tracking", "on")).To(Equal("OK"))
			g.Expect(ask("llen", "a")).To(Equal(int64(0)))
			g.Expect(ask("llen", "b")).To(Equal(int64(0)))
			g.Expect(c.client.LPush(t.Context(), "a", 1, 2).Err()).To(Succeed())
			g.Expect(pushed()).To(Equal(resp.Push{"invalidate", []any{"a"}}))
			g.Expect(c.client.LPush(t.Context(), "a", 3).Err()).To(Succeed(), "a was not read again")
			g.Expect(c.client.LPush(t.Context(), "b", 1).Err()).To(Succeed())
			g.Expect(pushed()).To(Equal(resp.Push{"invalidate", []any{"b"}}))
			g.Expect(ask("llen", "b")).To(Equal(int64(1)))
			g.Expect(c.client.RPop(t.Context(), "b").Err()).To(Succeed())
			g.Expect(pushed()).To(Equal(resp.Push{"invalidate", []any{"b"}}))
			g.Expect(ask("llen", "b")).To(Equal(int64(0)), "nothing else was sent")
		})
	}
}
