// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const setting = "notify-keyspace-events"

// scripts are commands for both servers, which have to agree on their events and replies.
var scripts = map[string][]string{
	"push":                 {"lpush q a", "rpush q b c d", "llen q", "lpush q", "rpush"},
	"push if there is one": {"lpushx q a", "rpushx q a", "lpush q a", "lpushx q b", "rpushx q c d"},
	"insert":               {"linsert q before a x", "rpush q a b", "linsert q before b x", "linsert q after b y", "linsert q after z y"},
	"set an element":       {"lset q 0 x", "rpush q a b", "lset q 1 x", "lset q -1 y", "lset q 2 z"},
	"pop":                  {"lpop q", "rpush q a b c", "lpop q", "rpop q", "rpop q", "rpop q"},
	"pop several":          {"lpop q 2", "rpush q a b c d", "lpop q 2", "lpop q 0", "rpop q 9", "rpop q 1", "lpop q -1"},
	"remove":               {"lrem q 0 a", "rpush q a b a", "lrem q 0 x", "lrem q 1 a", "lrem q -1 a", "lrem q 0 b"},
	"trim":                 {"ltrim q 0 1", "rpush q a b c", "ltrim q 0 9", "ltrim q 1 1", "ltrim q 5 9", "ltrim q 0 0", "ltrim"},
	"move":                 {"lmove q p left right", "rpush q a b", "lmove q p LEFT RIGHT", "lmove q p right left", "rpush p b", "lmove q p"},
	"rotate":               {"rpoplpush q p", "rpush q a b", "rpoplpush q q", "rpoplpush q p", "rpoplpush q p", "rpoplpush q"},
	"delete":               {"del q", "rpush q a", "del q p", "rpush q a", "rpush p a", "unlink q p q o", "del"},
	"rename":               {"rename q p", "rpush q a", "rename q p", "rpush q a", "rename q p", "renamenx p q", "rpush p a", "renamenx p q"},
	"rename to itself":     {"rpush q a", "rename q q", "renamenx q q", "llen q"},
	"only look":            {"rpush q a", "llen q", "lrange q 0 -1", "lindex q 0", "lpos q a", "exists q p", "type q", "keys *", "ping", "echo x"},
	"setting":              {"config set " + setting + " glK", "config get " + setting, "config set a", "config set a b", "config reset"},
}

// The emulation is of use only as far as it does what Redis does.
func TestEmulatedEventsAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	redisServer := redistest.New(t, redistest.Options{})
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	for _, protocol := range []int{2, 3} {
		original, imitation := connect(t, redisServer.Addr(), protocol), connect(t, emulated.Addr(), protocol)
		for name, script := range scripts {
			t.Run(fmt.Sprintf("%s, RESP%d", name, protocol), func(t *testing.T) {
				g := NewWithT(t)
				want, wantEvents := play(t, original, script)
				got, gotEvents := play(t, imitation, script)
				g.Expect(gotEvents).To(Equal(wantEvents))
				g.Expect(got).To(Equal(want))
			})
		}
	}
}

// The letter n is left out: it makes Redis announce new keys as well.
func TestEmulatedFlagsWorkAsThoseOfRedis(t *testing.T) {
	t.Parallel()
	redisServer := redistest.New(t, redistest.Options{})
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	for _, flags := range []string{
		"Kl", "lK", "Klg", "gKlKlg", "K", "l", "El", "Kg", "A", "AK", "KEA", "Klm", "g$lshzxetdK", "Kq", "k", "Kl,g",
	} {
		t.Run(flags, func(t *testing.T) {
			g := NewWithT(t)
			script := []string{"config set " + setting + " " + flags, "rpush q a", "lpop q", "rpush q a", "del q"}
			want, wantEvents := play(t, redisServer.Client(), script)
			got, gotEvents := play(t, emulated.Client(), script)
			g.Expect(got).To(Equal(want))
			g.Expect(gotEvents).To(Equal(wantEvents))
		})
	}
}

// connect returns a client that speaks a version of the protocol.
func connect(t *testing.T, addr string, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// play runs a script of commands where there are no keys, and returns replies and events.
func play(t *testing.T, client *redis.Client, script []string) (replies, events []string) {
	t.Helper()
	NewWithT(t).Expect(client.Del(t.Context(), "q", "p").Err()).To(Succeed())
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
	_, err := subscription.ReceiveTimeout(t.Context(), timeout)
	g.Expect(err).NotTo(HaveOccurred())
	return func() []string {
		defer func() { _ = subscription.Close() }()
		g.Expect(client.Publish(t.Context(), "__keyspace@0__:", "end").Err()).To(Succeed())
		var events []string
		for {
			received, err := subscription.ReceiveTimeout(t.Context(), timeout)
			g.Expect(err).NotTo(HaveOccurred())
			message := received.(*redis.Message)
			if message.Payload == "end" {
				return events
			}
			key := strings.TrimPrefix(message.Channel, "__keyspace@0__:")
			events = append(events, key+" "+message.Payload)
		}
	}
}

func TestEmulatedTakesTheFlagsOfItsStart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client := redistest.NewEmulated(t, redistest.EmulatedOptions{Events: "Kz"}).Client()
	g.Expect(client.ConfigGet(t.Context(), "*").Result()).To(Equal(map[string]string{setting: "Kz"}))
	_, err := redistest.StartEmulated(redistest.EmulatedOptions{Events: "Kq"})
	g.Expect(err).To(MatchError(ContainSubstring(setting)))
}

func TestEmulatedRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client := redistest.NewEmulated(t, redistest.EmulatedOptions{ForbidConfig: true}).Client()
	g.Expect(client.RPush(t.Context(), "q", "a").Err()).To(Succeed())
	for _, command := range []string{
		"multi", "watch q", "exec", "eval return(redis.call('lpop','q')) 0", "blpop q 1", "blmove q p left right 1", "lmpop 1 q left",
		"copy q p", "sort q store q", "set q x", "getdel q", "expire q 0", "flushall", "select 1", "config get " + setting,
	} {
		name, _, _ := strings.Cut(strings.ToUpper(command), " ")
		g.Expect(client.Do(t.Context(), arguments(command)...).Err()).To(MatchError(HaveSuffix("the emulated Redis does not know " + name)))
	}
	g.Expect(client.LRange(t.Context(), "q", 0, -1).Result()).To(Equal([]string{"a"}))
}

func TestEmulatedLife(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	client, addr := emulated.Client(), emulated.Addr()
	refused := func() error {
		_, err := net.DialTimeout("tcp", addr, timeout)
		return err
	}
	g.Expect(client.LPush(t.Context(), "other", "lost").Err()).To(Succeed())
	g.Expect(client.ConfigSet(t.Context(), setting, "").Err()).To(Succeed())
	subscription := client.Subscribe(t.Context(), "a")
	g.Expect(subscription.PSubscribe(t.Context(), "b")).To(Succeed())
	for range 2 {
		_, err := subscription.ReceiveTimeout(t.Context(), timeout)
		g.Expect(err).NotTo(HaveOccurred())
	}

	g.Expect(emulated.Kill()).To(Succeed())
	g.Expect(emulated.Kill()).To(Succeed())
	_, err := subscription.ReceiveTimeout(t.Context(), timeout)
	g.Expect(err).To(MatchError(io.EOF))
	g.Expect(subscription.Close()).To(Succeed())
	g.Expect(refused()).To(MatchError(syscall.ECONNREFUSED))

	for lives := range 2 { // It need not be down to be restarted.
		g.Expect(emulated.Subscribers()).To(Equal(1+lives), "connections count once, and for all lives")
		g.Expect(emulated.Restart(t.Context())).To(Succeed())
		g.Expect(emulated.Addr()).To(Equal(addr))
		replies, events := play(t, client, []string{"llen other", "lpush other a"})
		g.Expect(replies).To(HaveExactElements("llen other -> 0", "lpush other a -> 1"))
		g.Expect(events).To(ConsistOf("other lpush"), "the flags are those of the start")
	}
	g.Expect(emulated.Stop()).To(Succeed())
	g.Expect(emulated.Stop()).To(Succeed())
	g.Expect(refused()).To(MatchError(syscall.ECONNREFUSED))
	g.Expect(emulated.Restart(t.Context())).NotTo(Succeed())
}

// The events of one key tell its whole history, however many clients there are.
func TestEmulatedEventsAreInOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client := redistest.NewEmulated(t, redistest.EmulatedOptions{}).Client()
	finish := recordEvents(t, client)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 100 {
				g.Expect(client.LPush(t.Context(), "q", "a").Err()).To(Succeed())
				g.Expect(client.LPop(t.Context(), "q").Err()).To(Succeed())
			}
		})
	}
	workers.Wait()
	depth, emptied := 0, false
	for i, event := range finish() {
		g.Expect(event == "q del").To(Equal(emptied), "event %d is %q", i, event)
		depth += map[string]int{"q lpush": 1, "q lpop": -1}[event]
		emptied = event == "q lpop" && depth == 0
	}
	g.Expect(depth).To(BeZero())
}

func TestEmulatedOutlivesASubscriberThatDoesNotRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	client := emulated.Client()
	conn, err := net.Dial("tcp", emulated.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "*2\r\n$9\r\nSUBSCRIBE\r\n$16\r\n__keyspace@0__:q\r\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(emulated.Subscribers).WithTimeout(timeout).Should(Equal(1))
	subscribed := func() ([]string, error) { return client.PubSubChannels(t.Context(), "*").Result() }

	_, err = client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range 1000 {
			pipe.RPush(t.Context(), "q", "a")
		}
		return nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(subscribed()).NotTo(BeEmpty(), "its connection holds that much")
	big := strings.Repeat("x", 1<<20)
	g.Eventually(func() ([]string, error) {
		g.Expect(client.Publish(t.Context(), "__keyspace@0__:q", big).Err()).To(Succeed())
		return subscribed()
	}).WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeEmpty())
	g.Expect(client.LPush(t.Context(), "q", "a").Result()).To(BeEquivalentTo(1001))
}

// What a connection that tracks keys is told, by Redis and by the emulation.
func TestEmulatedTrackingIsLikeThatOfRedis(t *testing.T) {
	t.Parallel()
	original := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{Events: redistest.NoEvents})
	for name, c := range map[string]struct {
		addr   string
		client *redis.Client
	}{"Redis": {original.Addr(), original.Client()}, "emulated": {emulated.Addr(), emulated.Client()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			conn, err := net.Dial("tcp", c.addr)
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = conn.Close() }()
			g.Expect(conn.SetDeadline(time.Now().Add(timeout))).To(Succeed())
			replies := resp.NewReader(conn)
			ask := func(args ...string) any {
				_, err := conn.Write(resp.AppendCommand(nil, args...))
				g.Expect(err).NotTo(HaveOccurred())
				reply, err := replies.Next()
				g.Expect(err).NotTo(HaveOccurred())
				return reply
			}
			told := func() any {
				push, err := replies.Next()
				g.Expect(err).NotTo(HaveOccurred())
				return push
			}
			ask("hello", "3")
			g.Expect(ask("subscribe", "news")).To(Equal(resp.Push{"subscribe", "news", int64(1)}), "the same connection may track keys")
			g.Expect(ask("client", "tracking", "on")).To(Equal("OK"))
			g.Expect(ask("llen", "a")).To(Equal(int64(0)))
			g.Expect(ask("llen", "b")).To(Equal(int64(0)))
			g.Expect(c.client.LPush(t.Context(), "a", 1, 2).Err()).To(Succeed())
			g.Expect(told()).To(Equal(resp.Push{"invalidate", []any{"a"}}))
			g.Expect(c.client.LPush(t.Context(), "a", 3).Err()).To(Succeed(), "a was not read again")
			g.Expect(c.client.Rename(t.Context(), "a", "b").Err()).To(Succeed())
			g.Expect(told()).To(Equal(resp.Push{"invalidate", []any{"b"}}))
			g.Expect(ask("llen", "b")).To(Equal(int64(3)))
			g.Expect(c.client.RPop(t.Context(), "b").Err()).To(Succeed())
			g.Expect(told()).To(Equal(resp.Push{"invalidate", []any{"b"}}))
			g.Expect(ask("llen", "b")).To(Equal(int64(2)), "nothing else was sent")
		})
	}
}
