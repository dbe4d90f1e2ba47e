// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/redistest"
)

// scripts are commands for both servers, which have to agree on their events and replies.
var scripts = map[string][]string{
	"push":                   {"lpush q a", "rpush q b c d", "llen q"},
	"push if there is one":   {"lpushx q a", "rpushx q a", "lpush q a", "lpushx q b", "rpushx q c d"},
	"push to a string":       {"set q s", "lpush q a", "rpush q a", "lpushx q a", "rpushx q a"},
	"insert":                 {"linsert q before a x", "rpush q a b", "linsert q before b x", "linsert q after b y", "linsert q after z y"},
	"set an element":         {"lset q 0 x", "rpush q a b", "lset q 1 x", "lset q -1 y", "lset q 2 z"},
	"pop":                    {"lpop q", "rpush q a b c", "lpop q", "rpop q", "rpop q", "rpop q"},
	"pop several":            {"lpop q 2", "rpush q a b c d", "lpop q 2", "lpop q 0", "rpop q 9", "rpop q 1"},
	"pop from one of them":   {"lmpop 2 p q left", "rpush q a b c", "lmpop 2 p q right", "lmpop 1 q LEFT count 9", "lmpop 0 q left"},
	"remove":                 {"lrem q 0 a", "rpush q a b a", "lrem q 0 x", "lrem q 1 a", "lrem q -1 a", "lrem q 0 b"},
	"trim":                   {"ltrim q 0 1", "rpush q a b c", "ltrim q 0 9", "ltrim q 1 1", "ltrim q 5 9", "ltrim q 0 0"},
	"move":                   {"lmove q p left right", "rpush q a b", "lmove q p LEFT RIGHT", "lmove q p right left", "rpush p b"},
	"rotate":                 {"rpoplpush q p", "rpush q a b", "rpoplpush q q", "rpoplpush q p", "rpoplpush q p"},
	"move to a string":       {"set s x", "rpush q a", "lmove q s left LEFT", "rpoplpush q s", "rpoplpush s q"},
	"wait for nothing":       {"rpush q a b c d", "blpop p q 0", "brpop q 1", "blmove q p left right 0", "brpoplpush q p 0", "brpop p 0.5"},
	"wait in vain":           {"blpop q 0.01", "brpoplpush q p 0.01", "blmove q p left LEFT 0.01"},
	"wait for how long":      {"blpop q", "blpop q x", "blpop q -1", "brpoplpush q p"},
	"delete":                 {"del q", "rpush q a", "del q p", "rpush q a", "rpush p a", "unlink q p q o", "set s x", "getdel s", "getdel s"},
	"rename":                 {"rename q p", "rpush q a", "rename q p", "rpush q a", "rename q p", "renamenx p q", "rpush p a", "renamenx p q"},
	"rename to itself":       {"rpush q a", "rename q q", "renamenx q q", "llen q"},
	"copy":                   {"copy q p", "rpush q a", "copy q p", "copy q p", "copy q p replace", "copy q q"},
	"dump and restore":       {"set s x", "eval return(redis.call('restore',KEYS[2],0,redis.call('dump',KEYS[1]))) 2 s q"},
	"expire":                 {"expire q 9", "rpush q a", "expire q 9", "persist q", "persist q", "pexpire q 9000 xx", "pexpireat q 9999999999999", "expire q 0"},
	"expire in the past":     {"rpush q a", "expireat q 1", "rpush q a", "expire q -1", "rpush q a", "pexpireat q 1", "rpush q a", "pexpire q 0"},
	"forget everything":      {"rpush q a", "flushall", "rpush q a", "flushdb"},
	"only look":              {"rpush q a", "llen q", "lrange q 0 -1", "lindex q 0", "lpos q a", "exists q p", "type q", "ttl q", "touch q"},
	"transaction":            {"multi", "lpush q a", "rpush q b", "lpop q", "lpop q", "lpush q c", "llen q", "exec", "llen q"},
	"transaction that waits": {"multi", "blpop q 0", "rpush q a", "blpop q 0", "brpoplpush q p 0", "exec"},
	"empty transaction":      {"multi", "exec", "exec", "discard"},
	"discarded transaction":  {"multi", "lpush q a", "discard", "llen q", "lpush q b"},
	"invalid transaction":    {"multi", "lpush q", "lpush q a", "exec", "llen q"},
	"nested transaction":     {"multi", "multi", "watch q", "exec"},
	"failing command":        {"set s x", "multi", "lpush s a", "lpush q a", "exec"},
	"watched and the same":   {"rpush q a", "watch q", "multi", "rpush q b", "exec"},
	"watched and changed":    {"rpush q a", "watch q", "rpush q b", "multi", "rpush q c", "exec", "multi", "rpush q d", "exec"},
	"watched and discarded":  {"watch q", "rpush q a", "multi", "discard", "multi", "rpush q b", "exec"},
	"unwatched":              {"watch q", "rpush q a", "unwatch", "multi", "rpush q b", "exec"},
	"script":                 {"eval redis.call('lpush',KEYS[1],1)redis.call('lpop',KEYS[1])return(redis.call('rpush',KEYS[1],2,3)) 1 q"},
	"script that fails":      {"eval redis.call('lpush',KEYS[1],1)return(redis.pcall('set')) 1 q", "llen q"},
	"script in transaction":  {"multi", "eval return(redis.call('lpush',KEYS[1],1)) 1 q", "lpop q", "exec"},
	"many databases":         {"rpush q a", "select 0", "select 1", "rpush q a"},
}

// The emulation is of use only as far as it does what Redis does.
func TestEmulatedEventsAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	redisServer := redistest.New(t, redistest.Options{Args: []string{"--databases", "1"}})
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

// connect returns a client that speaks a version of the protocol.
func connect(t *testing.T, addr string, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// play runs a script of commands on an empty server, and returns replies and events.
func play(t *testing.T, client *redis.Client, script []string) (replies, events []string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(client.FlushAll(t.Context()).Err()).To(Succeed())
	finish := recordEvents(t, client)
	conn := client.Conn()
	defer func() { _ = conn.Close() }()
	for _, line := range script {
		reply, err := conn.Do(t.Context(), arguments(line)...).Result()
		replies = append(replies, fmt.Sprint(line, " -> ", reply, kind(err)))
	}
	return replies, finish()
}

func arguments(line string) []any {
	var args []any
	for word := range strings.FieldsSeq(line) {
		args = append(args, word)
	}
	return args
}

// kind returns what sort of error it is: the texts differ between versions of Redis.
func kind(err error) string {
	if err == nil {
		return ""
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return " " + word
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

func TestEmulatedFlagsAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	redisServer := redistest.New(t, redistest.Options{})
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	script := []string{"rpush q a", "lpop q", "rpush q a", "expire q 9", "del q"}
	for _, flags := range []string{
		"Kl", "lK", "Klg", "gKlKlg", "K", "l", "El", "Kg", "''", "A", "AK", "KEA", "KEAn", "Klm", "g$lshzxetdK", "g$lshzxeK",
		"Kq", "k", "Kl,g",
	} {
		t.Run(flags, func(t *testing.T) {
			g := NewWithT(t)
			lines := slices.Concat([]string{"config set notify-keyspace-events " + flags, "config get Notify-*-events"}, script)
			want, wantEvents := play(t, redisServer.Client(), lines)
			got, gotEvents := play(t, emulated.Client(), lines)
			g.Expect(got).To(Equal(want))
			if strings.Contains(flags, "n") { // The emulation has no event for new keys.
				wantEvents = slices.DeleteFunc(wantEvents, func(event string) bool { return event == "q new" })
			}
			g.Expect(gotEvents).To(Equal(wantEvents))
		})
	}
}

func TestEmulatedConfig(t *testing.T) {
	t.Parallel()
	const setting = "notify-keyspace-events"
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{Events: "Kz"})
			client := connect(t, emulated.Addr(), protocol)
			g.Expect(client.ConfigGet(t.Context(), setting).Result()).To(Equal(map[string]string{setting: "zK"}))
			g.Expect(client.ConfigSet(t.Context(), setting, "AKE").Err()).To(Succeed())
			g.Expect(client.ConfigGet(t.Context(), "*").Result()).To(Equal(map[string]string{setting: "AKE"}))
			g.Expect(client.ConfigGet(t.Context(), "maxmemory").Result()).To(BeEmpty())
			g.Expect(client.ConfigSet(t.Context(), "maxmemory", "1").Err()).To(MatchError(HavePrefix("ERR Unknown option")))
			g.Expect(client.ConfigSet(t.Context(), setting, "?").Err()).To(MatchError(HavePrefix("ERR CONFIG SET failed")))
			g.Expect(client.ConfigRewrite(t.Context()).Err()).To(MatchError(HavePrefix("ERR ")))
			g.Expect(client.Do(t.Context(), "config", "set", setting, "K", setting, "l").Err()).To(MatchError(HavePrefix("ERR ")))
		})
	}
}

func TestEmulatedConfigIsForbidden(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{ForbidConfig: true})
	err := emulated.Client().ConfigGet(t.Context(), "notify-keyspace-events").Err()
	g.Expect(err).To(MatchError(HavePrefix("ERR unknown command")))
	_, events := play(t, emulated.Client(), []string{"lpush q a"})
	g.Expect(events).To(ConsistOf("q lpush"))
}

func TestEmulatedRefusesUnknownFlags(t *testing.T) {
	t.Parallel()
	_, err := redistest.StartEmulated(redistest.EmulatedOptions{Events: "Kq"})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("notify-keyspace-events")))
}

func TestEmulatedRestart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	client, addr := emulated.Client(), emulated.Addr()
	g.Expect(client.LPush(t.Context(), "q", "lost").Err()).To(Succeed())
	g.Expect(client.ConfigSet(t.Context(), "notify-keyspace-events", "").Err()).To(Succeed())
	waiting := make(chan error, 1)
	go func() { waiting <- client.BLPop(context.WithoutCancel(t.Context()), 0, "empty").Err() }()
	g.Eventually(emulated.Waiting).WithTimeout(timeout).Should(Equal(1))

	g.Expect(emulated.Kill()).To(Succeed())
	g.Expect(emulated.Kill()).To(Succeed())
	g.Eventually(waiting).WithTimeout(timeout).Should(Receive(And(HaveOccurred(), Not(MatchError(redis.Nil)))))
	_, err := net.DialTimeout("tcp", addr, timeout)
	g.Expect(err).To(MatchError(syscall.ECONNREFUSED))

	g.Expect(emulated.Restart(t.Context())).To(Succeed())
	g.Expect(emulated.Addr()).To(Equal(addr))
	g.Expect(client.LLen(t.Context(), "q").Result()).To(BeZero(), "a restarted server is empty")
	_, events := play(t, client, []string{"lpush q a"})
	g.Expect(events).To(ConsistOf("q lpush"), "the flags are those of the start")
	g.Expect(emulated.Restart(t.Context())).To(Succeed(), "it need not be down")
	g.Expect(client.LLen(t.Context(), "q").Result()).To(BeZero())
}

func TestEmulatedStop(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated, err := redistest.StartEmulated(redistest.EmulatedOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(emulated.Client().Ping(t.Context()).Err()).To(Succeed())
	g.Expect(emulated.Stop()).To(Succeed())
	g.Expect(emulated.Stop()).To(Succeed())
	_, err = net.DialTimeout("tcp", emulated.Addr(), timeout)
	g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
	g.Expect(emulated.Restart(t.Context())).NotTo(Succeed())
}

func TestEmulatedCountsSubscribers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	client := emulated.Client()
	g.Expect(client.Ping(t.Context()).Err()).To(Succeed())
	g.Expect(emulated.Subscribers()).To(BeZero())
	subscribeTwice := func() {
		subscription := client.Subscribe(t.Context(), "a")
		g.Expect(subscription.PSubscribe(t.Context(), "b")).To(Succeed())
		for range 2 {
			_, err := subscription.ReceiveTimeout(t.Context(), timeout)
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(subscription.Close()).To(Succeed())
	}
	subscribeTwice()
	g.Expect(emulated.Subscribers()).To(Equal(1))
	g.Expect(emulated.Restart(t.Context())).To(Succeed())
	subscribeTwice()
	g.Expect(emulated.Subscribers()).To(Equal(2))
	g.Expect(emulated.Kill()).To(Succeed())
	g.Expect(emulated.Subscribers()).To(Equal(2))
}

// The events of one key tell its whole history, however many clients there are.
func TestEmulatedEventsAreInOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	client := emulated.Client()
	finish := recordEvents(t, client)
	const pushers, rounds = 6, 100
	var workers sync.WaitGroup
	for range pushers {
		workers.Go(func() {
			for range rounds {
				g.Expect(client.LPush(t.Context(), "q", "a").Err()).To(Succeed())
				g.Expect(client.RPush(t.Context(), "q", "a").Err()).To(Succeed())
				g.Expect(client.LPop(t.Context(), "q").Err()).To(Or(Succeed(), MatchError(redis.Nil)))
			}
		})
		workers.Go(func() {
			for range rounds {
				g.Expect(client.BLPop(t.Context(), 0, "none", "q").Err()).To(Or(Succeed(), MatchError(redis.Nil)))
			}
		})
	}
	workers.Wait()
	depth, emptied := 0, false
	for i, event := range finish() {
		g.Expect(event == "q del").To(Equal(emptied), "event %d is %q", i, event)
		switch event {
		case "q lpush", "q rpush":
			depth++
		case "q lpop":
			depth--
		}
		emptied = event == "q lpop" && depth == 0
	}
	g.Expect(depth).To(BeNumerically("==", client.LLen(t.Context(), "q").Val()))
}

// Whoever looks when the event of a push arrives finds the waiting clients served.
func TestEmulatedServesThoseWhoWait(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	client := emulated.Client()
	finish := recordEvents(t, client)
	served := make(chan string)
	for i, wait := range []string{"blpop p q 0", "brpoplpush q p 0", "brpop q 0"} {
		go func() {
			reply, _ := client.Do(context.WithoutCancel(t.Context()), arguments(wait)...).Result()
			served <- fmt.Sprint(wait, " -> ", reply)
		}()
		g.Eventually(emulated.Waiting).WithTimeout(timeout).Should(Equal(i + 1))
	}
	g.Expect(client.RPush(t.Context(), "q", "a", "b").Err()).To(Succeed())
	g.Eventually(served).WithTimeout(timeout).Should(Receive())
	g.Eventually(served).WithTimeout(timeout).Should(Receive())
	g.Expect(emulated.Waiting()).To(Equal(1))
	g.Expect(client.RPush(t.Context(), "q", "c").Err()).To(Succeed())
	g.Eventually(served).WithTimeout(timeout).Should(Receive(Equal("brpop q 0 -> [q c]")))
	g.Expect(finish()).To(Equal([]string{
		"q rpush", "q lpop", "p lpush", "q rpop", "q del",
		"q rpush", "q rpop", "q del",
	}))
}

func TestEmulatedForgetsWhoWaitsAndLeaves(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	conn, err := net.Dial("tcp", emulated.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.WriteString(conn, "*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$1\r\n0\r\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(emulated.Waiting).WithTimeout(timeout).Should(Equal(1))
	g.Expect(conn.Close()).To(Succeed())
	// It is gone for the server a moment later, and gets what is pushed until then.
	pushed := func() (int64, error) {
		if err := emulated.Client().LPush(t.Context(), "q", "a").Err(); err != nil {
			return 0, err
		}
		return emulated.Client().LLen(t.Context(), "q").Result()
	}
	g.Eventually(pushed).WithTimeout(timeout).Should(BeEquivalentTo(1))
	g.Expect(emulated.Waiting()).To(BeZero())
}

func TestEmulatedRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	emulated := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	for _, command := range []string{"config set notify-keyspace-events K", "subscribe q", "xread block 0 streams q $", "hello 3"} {
		t.Run(command, func(t *testing.T) {
			g := NewWithT(t)
			replies, events := play(t, emulated.Client(), []string{"multi", command, "lpush q a", "exec", "llen q"})
			g.Expect(replies).To(HaveExactElements(
				HaveSuffix("OK"), HaveSuffix("ERR"), HaveSuffix("QUEUED"), HaveSuffix("EXECABORT"), HaveSuffix("0"),
			))
			g.Expect(events).To(BeEmpty())
		})
	}
	g := NewWithT(t)
	replies, events := play(t, emulated.Client(), []string{
		"rpush q a", "eval return(redis.call('blpop',KEYS[1],0)) 1 q", "move q 1", "copy q p db 1", "swapdb 0 1",
		"eval return(redis.call('select','1')) 0",
	})
	g.Expect(replies[1:]).To(HaveEach(ContainSubstring("<nil> ERR")))
	g.Expect(events).To(ConsistOf("q rpush"))
	g.Expect(emulated.Client().ConfigGet(t.Context(), "*").Result()).To(HaveKeyWithValue("notify-keyspace-events", "glK"))
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
	subscribers := func() (int64, error) {
		counts, err := client.PubSubNumSub(t.Context(), "__keyspace@0__:q").Result()
		return counts["__keyspace@0__:q"], err
	}
	g.Eventually(subscribers).WithTimeout(timeout).Should(BeEquivalentTo(1))

	push := func(times int) {
		_, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for range times {
				pipe.LPush(t.Context(), "q", "a")
			}
			return nil
		})
		g.Expect(err).NotTo(HaveOccurred())
	}
	for range 50 {
		push(100)
	}
	g.Expect(subscribers()).To(BeEquivalentTo(1), "its connection holds that much")
	big := strings.Repeat("x", 1<<20)
	g.Eventually(func() (int64, error) {
		g.Expect(client.Publish(t.Context(), "__keyspace@0__:q", big).Err()).To(Succeed())
		return subscribers()
	}).WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeZero())
	push(1)
	g.Expect(client.LLen(t.Context(), "q").Result()).To(BeEquivalentTo(5001))
}
