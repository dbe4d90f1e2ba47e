// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tracking

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// timeout is how long a test waits for something that must happen. The clock is that of its bubble.
const timeout = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spacing is the least time between two reads of a key.
const spacing = 25 * time.Millisecond

const (
	hello3   = "%1\r\n+proto\r\n:3\r\n"
	toldOfA  = ">2\r\n+invalidate\r\n*1\r\n+a\r\n"
	toldOfB  = ">2\r\n+invalidate\r\n*1\r\n+b\r\n"
	flushed  = ">2\r\n+invalidate\r\n_\r\n"
	otherMsg = ">3\r\n+message\r\n+a\r\n+lpush\r\n"
)

// dialer connects to a server in the bubble of the test.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// harness runs a tracker of a scripted server.
type harness struct {
	*Tracker
	Gomega

	mu    sync.Mutex
	marks []string
	ends  []string
}

// Mark, Invalidated, Tracked and Ended record what happens.
func (h *harness) mark(id ID, cause coalesce.Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.marks = append(h.marks, id.Name+" "+cause.String())
}

func (h *harness) Invalidated(string) func() { return func() { /* not recorded */ } }
func (h *harness) Tracked(string, int, bool) { /* not recorded */ }

func (h *harness) Ended(_, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, reason)
}

func (h *harness) marked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.marks...)
}

// read returns how many marks come from reads. The others come when the tracking is proven.
func (h *harness) read() (count int) {
	for _, mark := range h.marked() {
		if !strings.HasSuffix(mark, coalesce.Changed.String()) {
			count++
		}
	}
	return count
}

func (h *harness) ended() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ends)
}

func impatient() Timing {
	timing := DefaultTiming()
	timing.PingAfter, timing.AnswerWithin = 50*time.Millisecond, time.Second
	timing.ForbiddenRetry, timing.RefusedRetry = 50*time.Millisecond, 50*time.Millisecond
	return timing
}

// track tracks lists on the server, each for an id of the same name.
func track(t *testing.T, dial dialer, keys ...string) *harness {
	t.Helper()
	return trackTimed(t, dial, impatient(), keys...)
}

func trackTimed(t *testing.T, dial dialer, timing Timing, keys ...string) *harness {
	t.Helper()
	h := &harness{Gomega: NewWithT(t)}
	pool := connection.NewPool(connection.Options{Dial: dial})
	h.Tracker = New(Options{
		Conn: pool.Conn(auth.Endpoint{Address: "redis:6379"}, 0), Mark: h.mark,
		Budgets: &budget.Namespaces{}, Recorder: h, Timing: timing, Log: logr.Discard(),
	})
	for _, key := range keys {
		h.Add(listOf(key), ID{Name: key}, false)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { h.Run(t.Context()) })
	t.Cleanup(running.Wait)
	return h
}

func listOf(name string) Key { return Key{Name: name, Class: verify.ClassList} }

// scripted is a server that tracks keys and answers LLEN by the script.
func scripted(llen func(key string) string) dialer {
	return redistest.NewPiped(func(args []string) string {
		switch args[0] {
		case "hello":
			return hello3
		case "client":
			return "+OK\r\n"
		case "llen":
			return llen(args[1])
		}
		return redistest.Usual
	}).Dial
}

func (h *harness) eventuallyMarked(marks ...string) {
	h.Eventually(h.marked).WithTimeout(timeout).WithPolling(time.Millisecond).Should(ContainElements(marks))
}

// told is the invalidation of a key.
func told(key string) string { return ">2\r\n+invalidate\r\n*1\r\n+" + key + "\r\n" }

func TestAnInvalidationIsFollowedByAReadAndAWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := track(t, scripted(func(string) string {
			if reads.Add(1) == 1 {
				return ":0\r\n" + toldOfA
			}
			return ":1\r\n"
		}), "a")
		h.eventuallyMarked("a Confirmed", "a Growth")
		h.Expect(reads.Load()).To(BeEquivalentTo(2))
		h.Expect(h.Proven()).To(BeTrue())
		h.Expect(h.State(listOf("a")).Tracked).To(BeTrue())
	})
}

func TestPushesInTheMiddleOfReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := track(t, scripted(func(string) string {
			if reads.Add(1) > 2 {
				return ":5\r\n"
			}
			return otherMsg + toldOfB + ":0\r\n" + flushed + otherMsg
		}), "a", "b")
		h.eventuallyMarked("a Confirmed", "b Confirmed", "a Growth", "b Growth")
		h.Expect(h.ended()).To(BeZero())
	})
}

// A server whose table of tracked keys is full sends invalidations although nothing has changed.
func TestInvalidationsWithoutAChangeCauseOneReadASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := trackTimed(t, scripted(func(string) string {
			reads.Add(1)
			return ":7\r\n" + toldOfA
		}), DefaultTiming(), "a")
		h.eventuallyMarked("a Shrink")
		before := reads.Load()
		time.Sleep(10*time.Second + spacing)
		h.Expect(reads.Load()-before).To(BeEquivalentTo(10), "no wake is dropped")
	})
}

// The server's table has room for a third of the keys. So it forgets a key with each read, and invalidates it.
func TestAFullTableCostsOneReadASecondForEachKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, room = 300, 100
		var table []string // One connection has one goroutine.
		var reads atomic.Int32
		dial := scripted(func(key string) string {
			reads.Add(1)
			table = append(table, key)
			if len(table) <= room {
				return ":0\r\n"
			}
			forgotten := table[0]
			table = table[1:]
			return ":0\r\n" + told(forgotten)
		})
		var keys []string
		for i := range many {
			keys = append(keys, strconv.Itoa(i))
		}
		h := trackTimed(t, dial, DefaultTiming(), keys...)
		time.Sleep(10 * time.Second) // Each length was equal often enough.
		before := reads.Load()
		const seconds = 20
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		h.Expect(reads.Load() - before).To(And(BeNumerically(">=", seconds*(many-room-1)), BeNumerically("<=", (seconds+1)*many)))
		h.Expect(h.read()).To(BeEquivalentTo(reads.Load()), "each read wakes")
		h.Expect(h.ended()).To(BeZero())
	})
}

// At rest the server is asked for nothing except a PING.
func TestKeysAtRestCostNoReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, pings atomic.Int32
		dial := redistest.NewPiped(func(args []string) string {
			switch args[0] {
			case "hello":
				return hello3
			case "client":
				return "+OK\r\n"
			case "llen":
				reads.Add(1)
			case "ping":
				pings.Add(1)
			}
			return redistest.Usual
		}).Dial
		const many = 1000
		var keys []string
		for i := range many {
			keys = append(keys, strconv.Itoa(i))
		}
		h := trackTimed(t, dial, DefaultTiming(), keys...)
		time.Sleep(time.Hour)
		synctest.Wait()
		h.Expect(reads.Load()).To(BeEquivalentTo(many))
		h.Expect(pings.Load()).To(And(BeNumerically(">", 1700), BeNumerically("<=", 1800)), "one each two seconds")
		h.Expect(h.ended()).To(BeZero())
	})
}

// What nobody asked for wakes nobody, and too much of it ends the session.
func TestInvalidationsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := track(t, scripted(func(string) string { return ":0\r\n" + toldOfB + toldOfA + toldOfA + toldOfB }), "a")
		h.eventuallyMarked("a Confirmed", "a Growth")
		h.Expect(h.marked()).NotTo(ContainElement(HavePrefix("b")))
		h.Expect(h.ended()).To(BeZero())

		h = track(t, scripted(func(string) string { return ":0\r\n" + strings.Repeat(toldOfB, 2*budget.StrayBurst) }), "a")
		h.Eventually(h.ended).WithTimeout(timeout).Should(BeNumerically(">=", 1))
		h.Expect(h.marked()).To(Equal([]string{"a Confirmed", "a Lost"}))
	})
}

func TestASessionEndsWhenTheServerMisbehaves(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no answer":              redistest.Nothing,
		"another type":           "+OK\r\n",
		"a negative length":      ":-1\r\n",
		"an answer too many":     ":1\r\n:2\r\n",
		"refused credentials":    "-NOAUTH Authentication required.\r\n",
		"the end":                redistest.HangUp,
		"another protocol":       "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a huge push":            ">70000\r\n",
		"a push that never ends": ">2\r\n+invalidate\r\n*2\r\n+a\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := track(t, scripted(func(string) string { return answer }), "a")
				h.Eventually(h.ended).WithTimeout(timeout).Should(BeNumerically(">=", 1))
				h.Expect(h.Proven()).To(BeFalse())
			})
		})
	}
}

func TestServersThatDoNotTrack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hello, client string
		want          types.GomegaMatcher
	}{
		"RESP2":             {hello: "*2\r\n+proto\r\n:2\r\n", client: "+OK\r\n"},
		"a strange hello":   {hello: "+OK\r\n", client: "+OK\r\n"},
		"no hello":          {hello: "-ERR unknown command 'HELLO'\r\n", client: "+OK\r\n"},
		"no RESP3":          {hello: "-NOPROTO unsupported protocol version\r\n", client: "+OK\r\n"},
		"no permission":     {hello: hello3, client: "-NOPERM this user has no permissions to run the 'client|tracking' command\r\n"},
		"NOAUTH to hello":   {hello: "-NOAUTH Authentication required.\r\n", client: "+OK\r\n"},
		"an unknown client": {hello: hello3, client: "-ERR unknown subcommand\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int32
				h := track(t, redistest.NewPiped(func(args []string) string {
					switch args[0] {
					case "hello":
						return c.hello
					case "client":
						return c.client
					case "llen":
						reads.Add(1)
					}
					return redistest.Usual
				}).Dial, "a")
				h.Eventually(h.ended).WithTimeout(timeout).Should(BeNumerically(">=", 2), "it is tried again")
				h.Expect(reads.Load()).To(BeZero())
				h.Expect(h.State(listOf("a")).Tracked).To(BeFalse())
				h.Expect(h.conn.WaitUp(t.Context())).To(Succeed(), "the server is not down")
			})
		})
	}
}

func TestAReadThatIsRefusedIsRepeated(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"NOPERM no", "LOADING Redis is loading", "MOVED 1 host:1", "WRONGTYPE no"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int32
				h := track(t, scripted(func(key string) string {
					if key == "a" && reads.Add(1) < 3 {
						return "-" + refusal + "\r\n"
					}
					return ":0\r\n"
				}), "a", "b")
				h.eventuallyMarked("b Confirmed", "a Confirmed")
				h.Expect(reads.Load()).To(BeEquivalentTo(3))
				h.Expect(h.ended()).To(BeZero())
			})
		})
	}
}

// What only a person can mend is tried again after a minute, and what heals by itself after a second.
func TestAReadIsRepeatedSoonIfTheRefusalMayEndByItself(t *testing.T) {
	t.Parallel()
	for refusal, readsInAMinute := range map[string]int{
		"NOPERM no": 1, "WRONGTYPE no": 1, "LOADING Redis is loading": 60, "BUSY a script": 60,
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int32
				h := trackTimed(t, scripted(func(string) string {
					reads.Add(1)
					return "-" + refusal + "\r\n"
				}), DefaultTiming(), "a")
				time.Sleep(time.Minute - time.Millisecond)
				h.Expect(reads.Load()).To(BeEquivalentTo(readsInAMinute))
				time.Sleep(time.Second)
				h.Expect(reads.Load()).To(BeEquivalentTo(readsInAMinute + 1))
			})
		})
	}
}

func TestIdleKeysAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := trackTimed(t, scripted(func(string) string {
			if n := reads.Add(1); n%2 == 0 { // The length changes all the time.
				return ":1\r\n" + toldOfA
			}
			return ":0\r\n" + toldOfA
		}), DefaultTiming(), "a")
		h.eventuallyMarked("a Confirmed")
		h.SetIdle(listOf("a"), ID{Name: "a"}, true)
		time.Sleep(time.Second)
		idle := reads.Load()
		time.Sleep(10 * time.Second)
		h.Expect(reads.Load() - idle).To(BeEquivalentTo(10))
		h.SetIdle(listOf("a"), ID{Name: "a"}, false)
		busy := reads.Load()
		time.Sleep(time.Second)
		h.Expect(reads.Load() - busy).To(BeNumerically("~", time.Second/spacing, 1))
	})
}

// Connections that end early come less and less often.
func TestTheWaitGrowsAfterShortSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sessions atomic.Int32
		h := trackTimed(t, scripted(func(string) string {
			sessions.Add(1)
			return redistest.HangUp
		}), DefaultTiming(), "a")
		time.Sleep(time.Hour)
		h.Expect(sessions.Load()).To(And(BeNumerically(">=", 14), BeNumerically("<=", 26)), "up to ten minutes apart")
	})
}

// stream is a server that greets a tracker, answers its reads with 0, and also sends what flood returns again and
// again, until the connection ends.
func stream(flood func() string) dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		return redistest.Pipe(func(conn net.Conn) { serveStream(conn, flood) }), nil
	}
}

func serveStream(conn net.Conn, flood func() string) {
	var sending sync.Mutex
	send := func(text string) bool {
		sending.Lock()
		defer sending.Unlock()
		_, err := io.WriteString(conn, text)
		return err == nil
	}
	var flooding sync.WaitGroup
	defer flooding.Wait()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		ok := true
		switch strings.ToLower(lines.Text()) {
		case "hello":
			ok = send(hello3)
		case "client":
			ok = send("+OK\r\n")
			flooding.Go(func() {
				for send(flood()) {
				}
			})
		case "llen":
			ok = send(":0\r\n")
		case "ping":
			ok = send("+PONG\r\n")
		}
		if !ok {
			return
		}
	}
	_ = conn.Close()
}

// Floods cost a bounded number of reads and wakes, and end the session.
func TestFloodsAreBounded(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"keys that nobody watches": toldOfB,
		"an armed key":             toldOfA,
		"all keys":                 flushed,
		"no keys":                  ">2\r\n+invalidate\r\n*0\r\n",
		"keys of another type":     ">2\r\n+invalidate\r\n*2\r\n:1\r\n*0\r\n",
		"many keys at once":        ">2\r\n+invalidate\r\n*1000\r\n" + strings.Repeat("+b\r\n", 1000),
		"an empty push":            ">0\r\n",
		"another kind":             otherMsg,
		"a deep push":              ">2\r\n+invalidate\r\n*1\r\n*1\r\n*1\r\n+a\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := track(t, stream(func() string { return strings.Repeat(message, 100) }), "a")
				h.Eventually(h.ended).WithTimeout(timeout).Should(BeNumerically(">=", 1))
				h.Expect(len(h.marked())).To(BeNumerically("<=", 200), "a key is read every 25 ms at most")
			})
		})
	}
}

// A message that comes byte by byte is given up after some time, and does not delay the replies for ever.
func TestAMessageThatDripsEndsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		h := track(t, stream(func() string {
			select {
			case <-t.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
			if sent.Add(1) == 1 {
				return ">2\r\n+invalidate\r\n*1\r\n$1000000\r\n"
			}
			return "x"
		}), "a")
		h.Eventually(h.ended).WithTimeout(timeout).Should(BeNumerically(">=", 1))
	})
}

// A server may answer with the lengths of other keys. Every change that it tells of still wakes.
func TestRepliesOfOtherKeysLoseNoWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := trackTimed(t, scripted(func(key string) string {
			lengths := map[string]string{"a": ":100\r\n", "b": ":1\r\n"}
			if n := reads.Add(1); n > 2 && n%2 == 0 { // That of the other key.
				lengths["a"], lengths["b"] = lengths["b"], lengths["a"]
			}
			if reads.Load() > 40 {
				return lengths[key]
			}
			return lengths[key] + told(key)
		}), DefaultTiming(), "a", "b")
		h.Eventually(reads.Load).WithTimeout(timeout).Should(BeNumerically(">=", 41))
		unwoken := func() int { return int(reads.Load()) - h.read() }
		h.Eventually(unwoken).WithTimeout(timeout).Should(BeZero(), "each read wakes")
		h.Expect(h.ended()).To(BeZero())
	})
}
