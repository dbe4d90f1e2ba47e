// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// newTracked runs a watcher of a server that publishes no notifications.
func newTracked(t *testing.T, prepare ...func(*harness)) (*harness, *redistest.Server) {
	t.Helper()
	return newServed(t, redistest.Options{Events: redistest.NoEvents}, prepare...)
}

// eventuallyTracked waits until the tracking of the keys of an id is in this state.
func (h *harness) eventuallyTracked(id string, want verify.Tracking) {
	h.t.Helper()
	h.Eventually(h.tracking).WithArguments(id).WithPolling(time.Millisecond).Should(Equal(want), id)
}

func TestKeysAreTrackedWhereNothingIsConfigured(t *testing.T) {
	h, server := newTracked(t)
	h.Ensure("emails", h.endpoint, list("emails"))
	h.eventuallyJudged("emails", verify.ReasonNotConfigured)
	h.eventuallyTracked("emails", verify.TrackedUnproven)
	h.Expect(h.State("emails").Announced()).To(BeFalse(), "the server may send nothing")

	for depth := range int64(20) {
		do(t, server, "lpush", "emails", 1)
		h.eventually("emails", depth+1)
	}
	h.eventuallyTracked("emails", verify.Tracked)
	h.Expect(h.State("emails").Announced()).To(BeTrue())
	h.Expect(h.count("emails", coalesce.Growth)).To(BeNumerically(">=", 1))
	h.Eventually(func() int { // The first one may come before the last push was read.
		do(t, server, "rpop", "emails")
		return h.count("emails", coalesce.Shrink)
	}).WithPolling(500 * time.Millisecond).Should(BeNumerically(">=", 1))
	length := must.Get(server.Client().LLen(t.Context(), "emails").Result())(h)
	h.eventually("emails", length)
}

func TestEachTypeIsTracked(t *testing.T) {
	h, server := newTracked(t)
	for class, push := range pushes {
		key := fmt.Sprint(push[1])
		id := "of the " + key // The name of an id is read as a list.
		h.Track(id, h.endpoint, Key{Name: key, Class: class})
		h.eventuallyWoken(id, coalesce.Confirmed, 1)
		h.Expect(h.State(id).Reason).To(Equal(verify.Undecided), "there is no subscription")
		do(t, server, push...)
		h.eventuallyWoken(id, coalesce.Growth, 1)
	}
}

func TestKeysOfADatabaseAreTracked(t *testing.T) {
	h, server := newTracked(t)
	key := list("emails")
	key.Database = 3
	h.Track("emails", h.endpoint, key)
	h.eventuallyWoken("emails", coalesce.Confirmed, 1)
	other := server.Client().Conn()
	defer func() { h.Expect(other.Close()).To(Succeed()) }()
	succeed(t, other.Select(t.Context(), 3))
	succeed(t, other.LPush(t.Context(), "emails", 1))
	h.eventuallyWoken("emails", coalesce.Growth, 1)
}

// A metric that stays at 0 while notifications have taken the place of the tracking would look like an outage.
func TestTheRecorderForgetsADatabaseThatIsNotTrackedAnyLonger(t *testing.T) {
	h, server := newTracked(t)
	h.ensure("emails")
	h.Eventually(h.recorded.databases).Should(Equal(map[int]bool{0: true}))
	do(t, server, "config", "set", "notify-keyspace-events", "Klg")
	h.Eventually(h.recorded.databases).Should(BeEmpty())
}

func TestADatabaseThatMayNotBeTrackedIsRecorded(t *testing.T) {
	h, server := newTracked(t)
	do(t, server, "acl", "setuser", "default", "-client|tracking")
	h.ensure("emails")
	h.Eventually(h.recorded.databases).Should(Equal(map[int]bool{0: false}))
}

// shortened returns intervals for tests.
func shortened() node.Timing {
	timing := node.DefaultTiming()
	timing.ForbiddenRetry, timing.RefusedRetry = 20*time.Millisecond, 20*time.Millisecond
	timing.LongestPause = time.Second
	timing.AnswerWithin = timeout
	return timing
}

// numberAfter returns the number after a name in a reply to INFO, and 0 if there is none.
func numberAfter(t *testing.T, info, name string) int {
	t.Helper()
	_, after, found := strings.Cut(info, name)
	if !found {
		return 0
	}
	digits := strings.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })
	number := must.Get(strconv.Atoi(after[:digits]))(NewWithT(t))
	return number
}

// A key that an idle id begins to watch is read once a second, like those that it watches already.
func TestAKeyThatAnIdleIDBeginsToWatchIsReadOnceASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := newPiped(t, func(args []string) string {
			switch args[0] {
			case "hello":
				return "%1\r\n+proto\r\n:3\r\n"
			case "client":
				return "+OK\r\n"
			case "llen":
				if args[1] != "later" {
					return ":0\r\n"
				}
				length := ":0\r\n" // It changes all the time.
				if reads.Add(1)%2 == 0 {
					length = ":1\r\n"
				}
				return length + ">2\r\n+invalidate\r\n*1\r\n+later\r\n"
			}
			return redistest.Usual
		}, func(w *harness) { w.serve = func(context.Context, coalesce.Wake) { /* nobody reads */ } })
		h.Track("emails", h.endpoint, list("emails"))
		h.SetIdle(named("emails"), true)
		time.Sleep(time.Second)
		h.Track("emails", h.endpoint, list("emails"), list("later"))
		time.Sleep(10*time.Second + time.Millisecond)
		h.Expect(reads.Load()).To(And(BeNumerically(">=", 10), BeNumerically("<=", 12)))
	})
}

// trackMany tracks this many lists until each is tracked, and returns their names.
func (h *harness) trackMany(many int) (keys []string) {
	h.t.Helper()
	for i := range many {
		keys = append(keys, "queue-"+strconv.Itoa(i))
		h.Track(keys[i], h.endpoint, list(keys[i]))
	}
	for _, key := range keys {
		h.Eventually(h.tracking).WithArguments(key).
			WithPolling(time.Millisecond).ShouldNot(Equal(verify.NotTracked), key)
	}
	return keys
}

// FLUSHDB of any database invalidates all keys of all databases, and a change of a key in one database that of the same
// name in the others.
func TestTenThousandTrackedKeys(t *testing.T) {
	h, server := newTracked(t)
	many := 10_000
	if testing.Short() {
		many = 1_000 // There are still several round trips.
	}
	keys := h.trackMany(many)
	other := server.Client().Conn()
	defer func() { h.Expect(other.Close()).To(Succeed()) }()
	succeed(t, other.Select(t.Context(), 2))
	succeed(t, other.FlushDB(t.Context()))
	succeed(t, other.LPush(t.Context(), keys[7], 1, 2, 3))
	pipe := server.Client().Pipeline()
	for _, key := range keys {
		pipe.LPush(t.Context(), key, 1)
	}
	began := time.Now()
	h.Expect(pipe.Exec(t.Context())).Error().NotTo(HaveOccurred())
	for _, key := range keys {
		h.eventually(key, 1)
	}
	taken := time.Since(began)
	began = time.Now()
	succeed(t, server.Client().FlushAll(t.Context()))
	for _, key := range keys {
		h.eventually(key, 0)
	}
	t.Logf("pushes read after %s, the flush after %s", taken, time.Since(began))
	for _, key := range keys {
		succeed(t, server.Client().LPush(t.Context(), key, 1))
	}
	for _, key := range keys {
		h.eventually(key, 1)
		h.eventuallyTracked(key, verify.Tracked)
	}
}

// calls returns how many times the server has run a command.
func calls(t *testing.T, server *redistest.Server, command string) int {
	t.Helper()
	info := must.Get(server.Client().Info(t.Context(), "commandstats").Result())(NewWithT(t))
	return numberAfter(t, info, "cmdstat_"+command+":calls=")
}

// The type of a queue is corrected. Nothing reads the key as the old type any longer.
func TestACorrectedTypeIsReadByItsCommandOnly(t *testing.T) {
	h, server := newTracked(t, func(w *harness) { w.options.Timing = shortened() })
	h.Track("corrected", h.endpoint, list("emails"), list("other"))
	h.eventuallyWoken("corrected", coalesce.Confirmed, 1)
	do(t, server, "sadd", "emails", 1)
	h.Eventually(func() string { return server.Client().Info(t.Context(), "errorstats").Val() }).
		Should(ContainSubstring("errorstat_WRONGTYPE"))
	set := Key{Name: "emails", Class: verify.ClassSet}
	h.Track("corrected", h.endpoint, set, list("other"))
	do(t, server, "sadd", "emails", 2)
	h.Eventually(func() int { return calls(t, server, "scard") }).Should(Equal(1))
	h.Consistently(func() int { return calls(t, server, "scard") }).Should(Equal(1))
}

func TestNothingToTrackIsNotTracked(t *testing.T) {
	h, _ := newTracked(t)
	h.Track("emails", h.endpoint)
	h.Expect(h.State("emails")).To(Equal(State{}))
	h.Expect(h.Observed("emails", "emails", 1, time.Now())).To(BeFalse())
	h.SetIdle(named("emails"), true)
	h.Track("emails", h.endpoint, list("emails"))
	h.eventuallyTracked("emails", verify.TrackedUnproven)
	h.Track("emails", h.endpoint)
	h.Expect(h.State("emails").Tracking).To(Equal(verify.NotTracked))
	h.Forget("emails")
}

// The key of a list has another type. Redis reports when that changes.
func TestAKeyThatGetsItsTypeIsTrackedAtOnce(t *testing.T) {
	h, server := newTracked(t, func(w *harness) { w.options.Timing.ForbiddenRetry = time.Hour })
	do(t, server, "set", "emails", "no list")
	h.Track("emails", h.endpoint, list("emails"), list("other"))
	h.Eventually(func() int { return calls(t, server, "llen") }).Should(BeNumerically(">=", 2))
	before := h.count("emails", coalesce.Growth)
	do(t, server, "del", "emails")
	h.eventuallyWoken("emails", coalesce.Growth, before+1)
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
}

// Between the reads of a server, the operator waits the longer the more ScaledJobs share it.
func TestAllWhoUseAServerAreCounted(t *testing.T) {
	h, _ := newTracked(t)
	h.ensure("emails")
	elsewhere := list("letters")
	elsewhere.Database = 3
	h.Track("letters", h.endpoint, elsewhere)
	h.Expect(h.State("emails").Watchers).To(Equal(2))
	h.Expect(h.State("letters").Watchers).To(Equal(2))
	h.Forget("emails")
	h.Expect(h.State("letters").Watchers).To(Equal(1))
}

// What a server costs whose ten keys are tracked and read: two connections, and a goroutine each for sending,
// receiving, reading the setting, and keeping the server.
//
//nolint:paralleltest // It counts goroutines.
func TestAServerCostsLittle(t *testing.T) {
	const servers, keys = 4, 10
	first := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	h := newHarness(t, first.Addr())
	use := func(server *redistest.Server, id string) {
		var lists []Key
		for i := range keys {
			lists = append(lists, list(fmt.Sprint(id, i)))
		}
		endpoint := auth.Endpoint{Address: server.Addr()}
		h.Ensure(id, endpoint, lists...)
		h.eventuallyTracked(id, verify.TrackedUnproven)
		h.Expect(h.read(t.Context(), endpoint, id+"0")).Error().NotTo(HaveOccurred())
	}
	use(first, "first")
	before := goroutines()
	others := []*redistest.Server{}
	for i := range servers {
		server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
		others = append(others, server)
		use(server, fmt.Sprint("other", i))
	}
	h.Eventually(func() int { return (goroutines() - before) / servers }).Should(BeNumerically("<=", 4))
	t.Logf("%d goroutines for each server", (goroutines()-before)/servers)
	for _, server := range others {
		h.Eventually(func() (int, error) {
			list, err := server.Client().ClientList(t.Context()).Result()
			return strings.Count(list, "\n"), err
		}).Should(BeNumerically("<=", 1+2), "the connections of the operator, and this one")
	}
}

// goroutines returns how many goroutines of the operator there are.
func goroutines() (found int) {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "/internal/keyspace") || strings.Contains(stack, "/internal/redis/") {
			found++
		}
	}
	return found
}
