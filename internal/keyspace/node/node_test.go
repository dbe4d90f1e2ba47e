// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// timeout is how long a test waits for something that must happen. The clock is that of its bubble.
const timeout = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hello3    = "%1\r\n+proto\r\n:3\r\n"
	forbidden = "-NOPERM No permissions to access a channel\r\n"
	noCommand = "-ERR unknown command\r\n"
)

// harness runs a node of a server.
type harness struct {
	*Node
	Gomega
	pool *connection.Pool
	// server is nil if it is not scripted.
	server *redistest.Scripted

	mu    sync.Mutex
	marks []string
	ends  []string
	// subscribed and tracked are what was recorded last.
	subscribed, tracked bool
	lines               []string // of the log
}

func (h *harness) Received(string) func()    { return func() { /* not recorded */ } }
func (h *harness) Invalidated(string) func() { return func() { /* not recorded */ } }
func (h *harness) Unsubscribed(string, int)  { /* not recorded */ }
func (h *harness) Untracked(string, int)     { /* not recorded */ }

func (h *harness) Subscribed(_ string, _ int, subscribed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribed = subscribed
}

func (h *harness) Tracked(_ string, _ int, tracked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracked = tracked
}

func (h *harness) Ended(_, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, reason)
}

func (h *harness) note(id ID, cause coalesce.Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.marks = append(h.marks, id.Name+" "+cause.String())
}

func (h *harness) marked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.marks)
}

func (h *harness) ended() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ends)
}

// tracking returns what was recorded last about the tracking of keys.
func (h *harness) tracking() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tracked
}

// logged returns the lines of the log.
func (h *harness) logged() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

func (h *harness) log(_, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *harness) eventuallyMarked(marks ...string) {
	h.Eventually(h.marked).Should(ContainElements(marks))
}

func (h *harness) eventuallyEnded() { h.Eventually(h.ended).Should(BeNumerically(">=", 1)) }

// count is how often the server got a command.
func (h *harness) count(command string) int { return h.server.Count(command) }

// present reports whether the channel of a key is subscribed to.
func (h *harness) present(name string) bool { return h.State(name).Subscription.Present }

func (h *harness) eventuallyPresent(names ...string) {
	for _, name := range names {
		h.Eventually(h.present).WithArguments(name).Should(BeTrue(), name)
	}
}

var (
	byNotifications = Interest{Class: verify.ClassList, Notify: true}
	byTracking      = Interest{Class: verify.ClassList, Track: true}
	byBoth          = Interest{Class: verify.ClassList, Notify: true, Track: true}
	notWatched      = Interest{}
)

func named(name string) ID { return ID{Name: name} }

// start runs a node of a server until the test ends. Each key is watched for an id of the same name.
func start(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), as Interest, keys ...string) *harness {
	t.Helper()
	return startAt(t, auth.Endpoint{Address: "redis:6379"}, connection.Options{Dial: dial}, as, keys...)
}

func startAt(t *testing.T, endpoint auth.Endpoint, options connection.Options, as Interest, keys ...string) *harness {
	t.Helper()
	h := &harness{Gomega: NewWithT(t), pool: connection.NewPool(options)}
	h.SetDefaultEventuallyTimeout(timeout)
	h.SetDefaultEventuallyPollingInterval(time.Millisecond)
	h.Node = New(Options{
		Conn: h.pool.Conn(endpoint, 0), Wake: h.note, Recorder: h, Timing: DefaultTiming(),
		Log: funcr.New(h.log, funcr.Options{}), Budgets: &budget.Namespaces{},
	})
	for _, key := range keys {
		h.Watch(key, named(key), as, false)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = h.pool.Start(t.Context()) })
	running.Go(func() { h.Run(t.Context()) })
	t.Cleanup(running.Wait)
	return h
}

// on runs a node of a scripted server.
func on(t *testing.T, script redistest.Script, as Interest, keys ...string) *harness {
	t.Helper()
	server := redistest.NewPiped(script)
	h := start(t, server.Dial, as, keys...)
	h.server = server
	return h
}

// modern is a server of RESP3, whose other replies are those of the script; Usual of a subscription is its
// confirmation.
func modern(script redistest.Script) redistest.Script {
	return func(args []string) string {
		switch reply := script(args); {
		case reply != redistest.Usual:
			return reply
		case args[0] == "hello":
			return hello3
		case args[0] == "client" || args[0] == asking:
			return "+OK\r\n"
		case args[0] == "llen":
			return ":0\r\n"
		case args[0] == subscribe || args[0] == unsubscribe:
			var confirmations string
			for i, channel := range args[1:] {
				confirmations += message(args[0], channel, strconv.Itoa(i+1))
			}
			return confirmations
		default:
			return reply
		}
	}
}

func usual([]string) string { return redistest.Usual }

// message is a push message.
func message(parts ...string) string {
	text := ">" + strconv.Itoa(len(parts)) + "\r\n"
	for _, part := range parts {
		text += "+" + part + "\r\n"
	}
	return text
}

func channelOf(key string) string { return "__keyspace@0__:" + key }

// invalidationOf is the invalidation of a key.
func invalidationOf(key string) string { return ">2\r\n+invalidate\r\n*1\r\n+" + key + "\r\n" }

func TestAConfirmationWakesAndSoDoesAnEvent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(func(args []string) string {
			if args[0] == subscribe {
				return message(subscribe, args[1], "1") + message("message", args[1], "lpush") + message("message", args[1], "lpop")
			}
			return redistest.Usual
		}), byNotifications, "a")
		h.eventuallyMarked("a Confirmed", "a Growth", "a Shrink")
		synctest.Wait()
		state := h.State("a").Subscription
		h.Expect(state.Present).To(BeTrue())
		h.Expect(state.HeardAt).To(BeTemporally("~", time.Now(), time.Second))
		h.Expect(h.marked()).To(Equal([]string{"a Confirmed", "a Growth", "a Changed", "a Shrink"}), "the first event is a proof")
		h.Expect(h.ended()).To(BeZero())
	})
}

func TestTheEndOfAConnectionMarksWhatWasWatched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		h := on(t, modern(func(args []string) string {
			if args[0] == ping && !refuse.Swap(true) {
				return redistest.HangUp
			}
			return redistest.Usual
		}), byBoth, "a")
		h.eventuallyMarked("a Lost")
		time.Sleep(time.Minute)
		h.Expect(h.marked()).To(Equal([]string{
			"a Confirmed", "a Confirmed", "a Lost", "a Lost", "a Confirmed", "a Confirmed",
		}), "each column once, and again on the next connection")
		h.Expect(h.ended()).To(Equal(1))
	})
}

func TestAKeyThatIsNotWatchedIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		h := on(t, modern(func(args []string) string {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, strings.Join(args, " "))
			return redistest.Usual
		}), byBoth, "a")
		h.Watch("b", named("b"), byNotifications, false)
		h.eventuallyPresent("a", "b")
		h.Eventually(func() bool { return h.State("a").Tracked }).Should(BeTrue())
		h.Watch("a", named("a"), notWatched, false)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		h.Expect(log).To(ContainElements("unsubscribe "+channelOf("a"), "client tracking off"))
		h.Expect(h.keys).To(HaveLen(1))
		h.Expect(h.readQueue).To(BeEmpty())
		h.Expect(h.classes).To(Equal(map[verify.Class]int{verify.ClassList: 1}))
	})
}

// Those who come later do not wait for a confirmation that has come.
func TestAKeyThatIsWatchedAlreadyWakesAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(usual), byBoth, "a")
		h.eventuallyPresent("a")
		h.Eventually(func() bool { return h.State("a").Valid.Present }).Should(BeTrue())
		h.Watch("a", named("late"), byNotifications, false)
		h.Expect(h.marked()).To(ContainElement("late Confirmed"))
		h.Watch("a", named("later"), byTracking, false)
		h.Expect(h.marked()).To(ContainElement("later Confirmed"))
		before := len(h.marked())
		h.Watch("a", named("later"), Interest{Class: verify.ClassStream, Track: true, Asking: true}, false)
		h.Expect(h.marked()).To(HaveLen(before), "nothing has begun")
	})
}

// Over RESP2, messages are arrays. A proxy may send them as it got them, as push messages. HELLO may be unknown, in the
// words of any proxy.
func TestServersWithoutRESP3(t *testing.T) {
	t.Parallel()
	for name, hello := range map[string]string{
		"no hello": noCommand, "no RESP3": "-NOPROTO unsupported protocol version\r\n", "RESP2": "*2\r\n+proto\r\n:2\r\n",
		"a strange hello": "+OK\r\n", "a proxy": "-unsupported command 'hello'\r\n", "a map of RESP2": "%1\r\n+proto\r\n:2\r\n",
	} {
		for form, begin := range map[string]string{"arrays": "*", "push messages": ">"} {
			t.Run(name+", "+form, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					push := func(kind, channel string, last any) string { return begin + redistest.Push(kind, channel, last)[1:] }
					h := on(t, func(args []string) string {
						switch args[0] {
						case "hello":
							return hello
						case ping:
							return invalidationOf("a") + "*2\r\n+pong\r\n+\r\n"
						case subscribe:
							return push(subscribe, args[1], 1) + push("message", args[1], "rpush")
						case "client", "llen":
							t.Errorf("%v was sent over RESP2", args)
						}
						return redistest.Usual
					}, byBoth, "a")
					h.eventuallyMarked("a Confirmed", "a Growth")
					time.Sleep(time.Minute)
					h.Expect(h.ended()).To(BeZero())
					h.Expect(h.State("a").Tracked).To(BeFalse())
					h.Expect(h.State("a").Proven).To(BeFalse(), "an invalidation proves nothing where nothing is tracked")
					h.Expect(h.tracking()).To(BeFalse(), "the metric says so")
					h.Expect(h.logged()).To(ContainElement(And(ContainSubstring("Redis does not track keys"), ContainSubstring("RESP3"))))
					h.Expect(h.count(ping)).To(BeNumerically(">=", 11), "and the pongs are replies")
				})
			})
		}
	}
}

// The session ends, those who watch the key know, and once the server is well, everything begins again.
func TestASessionEndsWhenTheServerMisbehaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ to, reply string }{
		"no reply to a SUBSCRIBE":         {subscribe, redistest.Nothing},
		"no reply, but messages":          {subscribe, strings.Repeat(message("message", channelOf("a"), "lpush"), 10)},
		"the confirmation of another key": {subscribe, message(subscribe, channelOf("b"), "1")},
		"of another database":             {subscribe, message(subscribe, "__keyspace@1__:a", "1")},
		"of something":                    {subscribe, message(unsubscribe, channelOf("a"), "0")},
		"a pong nobody asked for":         {subscribe, "+PONG\r\n"},
		"a pong nobody asks for any more": {ping, "+PONG\r\n+PONG\r\n"},
		"replies in another order":        {subscribe, "+OK\r\n" + message(subscribe, channelOf("a"), "1")},
		"a message before the greeting":   {"hello", invalidationOf("a") + hello3},
		"two errors":                      {subscribe, forbidden + forbidden},
		"refused credentials":             {subscribe, "-NOAUTH Authentication required.\r\n"},
		"the end":                         {subscribe, redistest.HangUp},
		"the end in a confirmation":       {subscribe, ">3\r\n+subscribe\r\n+__keyspace" + redistest.HangUp},
		"the end in a greeting":           {"hello", "%1\r\n+proto" + redistest.HangUp},
		"the end in a length":             {"llen", ":1" + redistest.HangUp},
		"the end in a message":            {"llen", ":1\r\n>2\r\n+invalidate\r\n*1\r\n+a" + redistest.HangUp},
		"a map for a confirmation":        {subscribe, "%1\r\n%0\r\n+x\r\n"},
		"an array for a confirmation":     {subscribe, "*1\r\n:1\r\n"},
		"refused credentials to a read":   {"llen", "-WRONGPASS invalid\r\n"},
		"no reply to a read":              {"llen", redistest.Nothing},
		"another type":                    {"llen", "+OK\r\n"},
		"a negative length":               {"llen", ":-1\r\n"},
		"a reply too many":                {"llen", ":1\r\n:2\r\n"},
		"another protocol":                {"llen", "HTTP/1.1 400 Bad Request\r\n\r\n"},
		"a push that never ends":          {"llen", ">2\r\n+invalidate\r\n*2\r\n+a\r\n"},
		"no reply to CLIENT":              {"client", redistest.Nothing},
		"a huge push":                     {"llen", ">70000\r\n"},
		"a confirmation of gigabytes":     {subscribe, ">3\r\n+subscribe\r\n$4294967296\r\n"},
		"a confirmation a thousand deep":  {subscribe, ">3\r\n+subscribe\r\n" + strings.Repeat("*1\r\n", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var well atomic.Bool
				h := on(t, modern(func(args []string) string {
					if args[0] == c.to && !well.Load() {
						return c.reply
					}
					return redistest.Usual
				}), byBoth, "a")
				h.eventuallyEnded()
				before := len(h.marked())
				well.Store(true)
				time.Sleep(2 * DefaultTiming().ForbiddenRetry)
				synctest.Wait()
				h.Expect(h.present("a")).To(BeTrue())
				h.Expect(h.State("a").Valid.Present).To(BeTrue())
				h.Expect(h.marked()[before:]).To(ContainElements("a Confirmed", "a Confirmed"), "reads after these find what nobody reported")
			})
		})
	}
}

// The confirmations of one command may come in any order.
func TestConfirmationsInAnotherOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(func(args []string) string {
			var confirmations string
			if args[0] == subscribe {
				for _, channel := range slices.Backward(args[1:]) {
					confirmations += message(subscribe, channel, "1")
				}
			}
			return confirmations
		}), byNotifications, "a", "b", "c")
		h.eventuallyPresent("a", "b", "c")
		h.Expect(h.ended()).To(BeZero())
	})
}

// expectNotBlocked uses a node in all ways, none of which may wait for its server.
func (h *harness) expectNotBlocked() {
	begun := time.Now()
	h.Watch("b", named("b"), byBoth, false)
	h.Block("b", named("b"), true)
	h.Expect(h.State("b").Tracked).To(BeFalse())
	h.Expect(h.Classes()).NotTo(BeEmpty())
	h.Watch("a", named("late"), byTracking, false)
	h.Expect(time.Since(begun)).To(BeZero())
}

// The next command of the sender fills what nobody empties. What the server sends is received meanwhile, and then the
// session ends and the next one begins.
func TestASendThatNobodyReadsEndsTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var stopped atomic.Bool
		h := start(t, func(context.Context, string, string) (net.Conn, error) {
			return redistest.Pipe(func(conn net.Conn) {
				for args := range redistest.Commands(conn) {
					answer := modern(usual)(args)
					if answer == redistest.Usual {
						answer = redistest.UsualAnswer(args)
					}
					_, err := io.WriteString(conn, answer)
					for stops := args[0] == subscribe && !stopped.Swap(true); stops && err == nil; {
						time.Sleep(10 * time.Millisecond)
						_, err = io.WriteString(conn, message("message", channelOf("a"), "lpush"))
					}
				}
			}), nil
		}, byNotifications, "a")
		h.eventuallyPresent("a")
		begun := time.Now()
		h.expectNotBlocked()
		synctest.Wait() // The sender writes.
		before := len(h.marked())
		time.Sleep(500 * time.Millisecond)
		h.expectNotBlocked()
		h.Expect(h.ended()).To(BeZero())
		h.Expect(len(h.marked())).To(BeNumerically(">=", before+40), "messages are received")
		h.eventuallyEnded()
		h.Expect(time.Since(begun)).To(BeNumerically("<=", 1100*time.Millisecond), "the time of a call")
		h.eventuallyPresent("a", "b")
		h.eventuallyMarked("a Lost", "b Confirmed")
		h.Expect(h.ended()).To(Equal(1))
	})
}

// A server that takes 900 ms for each reply does not reply in time to many reads at once, but to each of them.
func TestAServerThatIsSlowIsWatched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		keys := numbers(20)
		h := on(t, modern(func(args []string) string {
			select {
			case <-time.After(900 * time.Millisecond):
			case <-t.Context().Done():
			}
			if args[0] == ping {
				return message("message", channelOf("7"), "lpush") + "+PONG\r\n"
			}
			return redistest.Usual
		}), byBoth, keys...)
		time.Sleep(time.Minute)
		for _, key := range keys {
			h.Expect(h.present(key)).To(BeTrue(), key)
			h.Expect(h.State(key).Valid.Present).To(BeTrue(), key)
		}
		h.Expect(h.marked()).To(ContainElement("7 Growth"))
		h.Expect(h.ended()).To(BeZero())
	})
}

// A server that accepts CLIENT TRACKING and says nothing more on the connection is not taken for one that tracks keys.
// It is tried again less and less often, and there are notifications meanwhile.
func TestAServerThatIsSilentOnceItTracks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var tried atomic.Int32
		h := start(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			silent := false
			return redistest.NewPiped(modern(func(args []string) string {
				switch {
				case silent:
					return redistest.Nothing
				case args[0] == "client":
					tried.Add(1)
					silent = true
				}
				return redistest.Usual
			})).Dial(ctx, network, address)
		}, byBoth, "a")
		subscribed := 0
		for range 60 {
			time.Sleep(time.Minute)
			h.Expect(h.State("a").Valid.Present).To(BeFalse())
			h.Expect(h.State("a").Tracked).To(BeFalse())
			if h.present("a") {
				subscribed++
			}
		}
		h.Expect(tried.Load()).To(And(BeNumerically(">=", 10), BeNumerically("<=", 20)))
		h.Expect(subscribed).To(BeNumerically(">=", 50))
	})
}

// Watching and its end may come at any moment of a session, also while a reply is under way.
func TestChangesAtAnyMoment(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := startAt(t, auth.Endpoint{Address: server.Addr()}, connection.Options{}, notWatched)
	var changing sync.WaitGroup
	for worker := range 4 {
		changing.Go(func() {
			ways := []Interest{byNotifications, notWatched, byTracking, byBoth, notWatched, byTracking, byNotifications}
			for i := range 300 {
				name := strconv.Itoa(i % 20)
				h.Watch(name, named(strconv.Itoa(worker)), ways[(i+worker)%len(ways)], false)
				h.Block(name, named(strconv.Itoa(worker)), i%3 == 0)
				h.State(name)
			}
			for i := range 20 {
				h.Watch(strconv.Itoa(i), named(strconv.Itoa(worker)), byBoth, false)
			}
		})
	}
	changing.Wait()
	for i := range 20 {
		h.eventuallyPresent(strconv.Itoa(i))
		h.Eventually(func() bool { return h.State(strconv.Itoa(i)).Valid.Present }).Should(BeTrue())
	}
	before := len(h.marked())
	h.Expect(server.Client().LPush(t.Context(), "7", "x").Err()).To(Succeed())
	h.Eventually(func() []string { return h.marked()[before:] }).Should(ContainElements("0 Growth", "1 Growth", "2 Growth", "3 Growth"))
	h.Expect(h.ended()).To(BeZero())
}
