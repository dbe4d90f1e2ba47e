// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// newTracked runs a watcher of a server that publishes no notifications.
func newTracked(t *testing.T, prepare ...func(*harness)) (*harness, *redistest.Server) {
	t.Helper()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	return newHarness(t, server.Addr(), prepare...), server
}

// eventuallyTracked waits until the tracking of the keys of an id is in this state.
func (h *harness) eventuallyTracked(id string, want verify.Tracking) {
	h.t.Helper()
	h.Eventually(func() verify.Tracking { return h.State(id).Tracking }).
		WithTimeout(timeout).WithPolling(time.Millisecond).Should(Equal(want), id)
}

func TestKeysAreTrackedWhereNothingIsConfigured(t *testing.T) {
	t.Parallel()
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
	}).WithTimeout(timeout).WithPolling(500 * time.Millisecond).Should(BeNumerically(">=", 1))
	length, err := server.Client().LLen(t.Context(), "emails").Result()
	h.Expect(err).NotTo(HaveOccurred())
	h.eventually("emails", length)
}

func TestEachTypeIsTracked(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	for class, grow := range map[verify.Class][]any{
		verify.ClassList: {"rpush", "key-l", 1}, verify.ClassSet: {"sadd", "key-s", 1}, verify.ClassHash: {"hset", "key-h", "a", 1},
		verify.ClassSortedSet: {"zadd", "key-z", 1, "a"}, verify.ClassStream: {"xadd", "key-t", "*", "a", 1},
	} {
		id := string(rune(class))
		h.Track(id, h.endpoint, Key{Name: "key-" + id, Class: class})
		h.eventuallyWoken(id, coalesce.Confirmed, 1)
		h.Expect(h.State(id).Reason).To(Equal(verify.Undecided), "there is no subscription")
		do(t, server, grow...)
		h.eventuallyWoken(id, coalesce.Growth, 1)
	}
}

func TestChangesOfAllKindsAreTold(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	for name, commands := range map[string][][]any{
		"rename": {{"lpush", "other", 1, 2}, {"rename", "other", "rename"}},
		"copy":   {{"lpush", "original", 1, 2}, {"copy", "original", "copy"}},
		"script": {{"eval", "return redis.call('lpush', KEYS[1], 1, 2)", 1, "script"}},
		"exec":   {{"lpush", "exec", 1}, {"lpush", "exec", 2}},
	} {
		h.Track(name, h.endpoint, list(name))
		h.eventuallyWoken(name, coalesce.Confirmed, 1)
		for _, command := range commands {
			do(t, server, command...)
		}
		h.Eventually(h.depth).WithArguments(name).WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeNumerically(">=", 2), name)
	}
}

func TestAnExpiryIsTold(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	h.Track("emails", h.endpoint, list("emails"))
	h.eventuallyWoken("emails", coalesce.Confirmed, 1)
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	do(t, server, "pexpire", "emails", 1)
	h.eventually("emails", 0)
}

// FLUSHDB of any database invalidates all keys of all databases, and a change of a key in one database invalidates the key of
// that name in the others.
func TestFlushesAndOtherDatabasesLoseNothing(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	const many = 1000
	for i := range many {
		h.Track(strconv.Itoa(i), h.endpoint, list(strconv.Itoa(i)))
	}
	for i := range many {
		h.eventuallyWoken(strconv.Itoa(i), coalesce.Confirmed, 1)
	}
	other := server.Client().Conn()
	defer func() { h.Expect(other.Close()).To(Succeed()) }()
	must(t, other.Select(t.Context(), 2))
	must(t, other.FlushDB(t.Context()))
	must(t, other.LPush(t.Context(), "7", 1, 2, 3))
	for i := range many {
		do(t, server, "lpush", strconv.Itoa(i), 1)
	}
	for i := range many {
		h.eventually(strconv.Itoa(i), 1)
	}
	must(t, server.Client().FlushAll(t.Context()))
	for i := range many {
		h.eventually(strconv.Itoa(i), 0)
	}
}

func TestKeysOfADatabaseAreTracked(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	key := list("emails")
	key.Database = 3
	h.Track("emails", h.endpoint, key)
	h.eventuallyWoken("emails", coalesce.Confirmed, 1)
	other := server.Client().Conn()
	defer func() { h.Expect(other.Close()).To(Succeed()) }()
	must(t, other.Select(t.Context(), 3))
	must(t, other.LPush(t.Context(), "emails", 1))
	h.eventuallyWoken("emails", coalesce.Growth, 1)
}

// A pusher goes on while notifications are switched on and off, so that the source changes all the time.
func TestAChangeOfSourceLosesNoWake(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t)
	h.ensure("emails")
	pushed := int64(0)
	for round := range 3 {
		flags, want := "Klg", verify.ReasonSubscribed
		if round%2 == 1 {
			flags, want = "", verify.ReasonNotConfigured
		}
		do(t, server, "config", "set", "notify-keyspace-events", flags)
		h.Eventually(func() verify.Reason {
			pushed++
			do(t, server, "lpush", "emails", 1)
			return h.State("emails").Reason
		}).WithTimeout(timeout).WithPolling(time.Millisecond).Should(Equal(want))
		h.eventually("emails", pushed)
	}
}

// trackedDatabases records which databases are tracked, by their numbers.
type trackedDatabases struct {
	*recorded
	mu  sync.Mutex
	all map[int]bool
}

func (d *trackedDatabases) Tracked(_ string, database int, tracked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[database] = tracked
}

func (d *trackedDatabases) Untracked(_ string, database int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, database)
}

func (d *trackedDatabases) get() map[int]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

// A metric that stays at 0 while notifications have taken the place of the tracking would look like an outage.
func TestTheRecorderForgetsADatabaseThatIsNotTrackedAnyLonger(t *testing.T) {
	t.Parallel()
	recorded := &trackedDatabases{recorded: newRecorded(), all: map[int]bool{}}
	h, server := newTracked(t, func(w *harness) { w.options.Recorder = recorded })
	h.ensure("emails")
	h.Eventually(recorded.get).WithTimeout(timeout).Should(Equal(map[int]bool{0: true}))
	do(t, server, "config", "set", "notify-keyspace-events", "Klg")
	h.Eventually(recorded.get).WithTimeout(timeout).Should(BeEmpty())
}

func TestTheRecorderIsToldOfADatabaseThatMayNotBeTracked(t *testing.T) {
	t.Parallel()
	recorded := &trackedDatabases{recorded: newRecorded(), all: map[int]bool{}}
	h, server := newTracked(t, func(w *harness) { w.options.Recorder = recorded })
	do(t, server, "acl", "setuser", "default", "-client|tracking")
	h.ensure("emails")
	h.Eventually(recorded.get).WithTimeout(timeout).Should(Equal(map[int]bool{0: false}))
}

func TestWhereTrackingIsNotAllowedNothingIsTracked(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t, func(w *harness) { w.options.Timing = shortened() })
	do(t, server, "acl", "setuser", "default", "-client|tracking")
	h.Ensure("emails", h.endpoint, list("emails"))
	h.eventuallyWoken("emails", coalesce.Confirmed, 1)
	h.Eventually(func() verify.Reason { return h.State("emails").Reason }).WithTimeout(timeout).Should(Equal(verify.ReasonNotConfigured))
	h.Consistently(func() verify.Tracking { return h.State("emails").Tracking }).Should(Equal(verify.NotTracked))
	h.Expect(h.pool.Conn(h.endpoint, 0).WaitUp(t.Context())).To(Succeed(), "the server is not down")

	do(t, server, "acl", "setuser", "default", "+client|tracking")
	h.eventuallyTracked("emails", verify.TrackedUnproven)
}

func TestAKeyThatMayNotBeReadHarmsNoOther(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t, func(w *harness) { w.options.Timing = shortened() })
	do(t, server, "acl", "setuser", "default", "resetkeys", "~allowed*")
	for _, key := range []string{"allowed", "forbidden"} {
		h.Track(key, h.endpoint, list(key))
	}
	h.eventuallyTracked("allowed", verify.TrackedUnproven)
	h.Expect(h.State("forbidden").Tracking).To(Equal(verify.NotTracked))
	do(t, server, "acl", "setuser", "default", "allkeys")
	h.eventuallyTracked("forbidden", verify.TrackedUnproven)
	do(t, server, "lpush", "forbidden", 1)
	h.eventually("forbidden", 1)
	do(t, server, "lpush", "allowed", 1)
	h.eventually("allowed", 1)
}

// Each session leaves its ID under each key that it has read. Connections that end all the time must not fill the
// memory of the server.
func TestManyReconnectsLeaveABoundedNumberOfItems(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t, func(w *harness) {
		timing := shortened()
		timing.ShortSession, timing.LongestPause = time.Hour, time.Hour
		w.options.Timing = timing
	})
	const many, sessions = 20, 5 // The waits between them are 0.25 s and then up to 0.5 s, 1 s and 2 s.
	h.trackMany(many)
	began := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	killConnections(ctx, t, server)
	h.Expect(h.recorded.trackings.Load()).To(BeNumerically("<=", sessions), "after %s", time.Since(began))
	h.Expect(trackedItems(t, server)).To(And(BeNumerically(">=", many), BeNumerically("<=", many*sessions)))
}

// shortened returns intervals for tests.
func shortened() node.Timing {
	timing := node.DefaultTiming()
	timing.ForbiddenRetry, timing.RefusedRetry = 20*time.Millisecond, 20*time.Millisecond
	timing.LongestPause = time.Second
	timing.AnswerWithin = timeout
	return timing
}

// trackedItems returns how many IDs of clients the server has under its tracked keys.
func trackedItems(t *testing.T, server *redistest.Server) int {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "stats").Result()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return numberAfter(t, info, "tracking_total_items:")
}

// numberAfter returns the number after a name in a reply to INFO, and 0 if there is none.
func numberAfter(t *testing.T, info, name string) int {
	t.Helper()
	_, after, found := strings.Cut(info, name)
	if !found {
		return 0
	}
	digits := strings.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })
	number, err := strconv.Atoi(after[:digits])
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return number
}
