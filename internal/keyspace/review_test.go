// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
)

// newVerified returns a watcher that does not run, with ids whose keys are subscribed to and whose notifications are
// verified.
func newVerified(ids, keysEach int) *Watcher {
	pool := connection.NewPool(connection.Options{})
	w := New(Options{Pool: pool, Directory: topology.New(pool, logr.Discard()), Recorder: newRecorded(), Log: logr.Discard()})
	endpoint := auth.Endpoint{Address: "10.0.0.1:6379"}
	for i := range ids {
		keys := make([]Key, keysEach)
		for k := range keys {
			keys[k] = list(fmt.Sprintf("queue-%d-%d", i, k))
		}
		w.Ensure(ID{Namespace: "tenant", Name: strconv.Itoa(i)}, endpoint, AnySource, keys...)
	}
	server := w.supervisors[endpoint]
	subscribeAll(server.set)
	server.evidence.Told(verify.Setting{Readable: true, Flags: "Klg"}, time.Now())
	return w
}

// A review leaves out what cannot have changed. Whatever happens, in any order, each verdict is the one that follows from
// what is known now.
func TestAReviewMissesNoChange(t *testing.T) {
	t.Parallel()
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20 // They are the same in each run.
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := &happenings{Watcher: newVerified(4, 2), random: rand.New(rand.NewPCG(seed, 1))}
			h.server = h.supervisors[auth.Endpoint{Address: "10.0.0.1:6379"}]
			all := h.all()
			var history []string
			for range 100 {
				next := all[h.random.IntN(len(all))]
				history = append(history, next.name)
				next.happens()
				h.review(time.Now())
				for id, watched := range h.watches {
					verdict, _ := h.verdict(id, watched, time.Now())
					NewWithT(t).Expect(watched.reported).To(Equal(verdict), "%s after %v, seed %d", id.Name, history, seed)
				}
			}
		})
	}
}

// happenings makes things happen to a watcher at random.
type happenings struct {
	*Watcher
	server *supervisor
	random *rand.Rand
	depth  int64
}

type happening struct {
	name    string
	happens func()
}

func (h *happenings) all() []happening {
	set, evidence := h.server.set, h.server.evidence
	return []happening{
		{"the session ends", set.reset},
		{"a session begins", evidence.Begin},
		{"subscribed", func() { subscribeAll(set) }},
		{"an event", func() { set.event(list(h.key()).channel(), coalesce.Growth) }},
		{"an event is proof", func() { evidence.Heard(verify.ClassList) }},
		{"a flood", h.flood},
		{"rests end", set.resume},
		{"refused", func() { set.refused(set.takeWanted(2), true, time.Now().Add(time.Minute)) }},
		{"a class comes", func() {
			h.Ensure(named("new"), h.server.endpoint, AnySource, Key{Name: "hash", Class: verify.ClassHash})
		}},
		{"a class goes", func() { h.Forget(named("new")) }},
		{"the setting is read", func() {
			flags := []verify.Flags{"", "Klg", "KA"}[h.random.IntN(3)]
			evidence.Told(verify.Setting{Readable: h.random.IntN(2) == 0, Flags: flags}, time.Now())
		}},
		{"growth", h.grow},
		{"growth", h.grow},
		{"time passes", func() { time.Sleep(time.Duration(h.random.IntN(100)) * time.Second) }},
		{"a second passes", func() { time.Sleep(time.Second) }},
	}
}

// key returns the name of a key.
func (h *happenings) key() string {
	return fmt.Sprintf("queue-%d-%d", h.random.IntN(4), h.random.IntN(2))
}

func (h *happenings) flood() {
	flooded := list(h.key()).channel()
	for range budget.KeyBurst + 1 {
		h.server.set.event(flooded, coalesce.Shrink)
	}
}

func (h *happenings) grow() {
	h.depth++
	grown := h.key()
	h.Observed(ID{Namespace: "tenant", Name: strings.Split(grown, "-")[1]}, grown, h.depth, time.Now())
}

// subscribeAll confirms all subscriptions that are wanted.
func subscribeAll(set *channelSet) {
	for taken := set.takeWanted(maxChannels); len(taken) > 0; taken = set.takeWanted(maxChannels) {
		for _, channel := range taken {
			set.subscribed(channel)
		}
	}
}

// What is settled is not judged again.
func TestAReviewLeavesOutWhatCannotHaveChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newVerified(100, 2)
		open := func() (count int) {
			for _, watched := range w.watches {
				if !watched.settled || watched.judgedAt != w.version(watched) {
					count++
				}
			}
			return count
		}
		w.review(time.Now())
		g.Expect(open()).To(Equal(100), "the subscriptions are new")
		time.Sleep(time.Minute)
		w.review(time.Now())
		g.Expect(open()).To(BeZero())
		w.review(time.Now())
		g.Expect(w.reviewed).To(BeEmpty())
		w.Observed(ID{Namespace: "tenant", Name: "7"}, "queue-7-0", 1, time.Now())
		g.Expect(open()).To(Equal(1))
		w.supervisors[auth.Endpoint{Address: "10.0.0.1:6379"}].evidence.Begin()
		g.Expect(open()).To(Equal(100))
		w.review(time.Now())
		g.Expect(w.reviewed).To(HaveLen(100))
	})
}

// BenchmarkReview measures a review of 10,000 ids, and for how long on average it holds the lock of the watcher. What has
// changed since the last review is nothing, or something about the server of all.
func BenchmarkReview(b *testing.B) {
	const ids = 10_000
	for _, keys := range []int{1, 16} {
		w := newVerified(ids, keys)
		evidence := w.supervisors[auth.Endpoint{Address: "10.0.0.1:6379"}].evidence
		told := false
		for _, changed := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/changed=%t", keys, changed), func(b *testing.B) {
				w.review(time.Now().Add(time.Hour))
				for b.Loop() {
					told = !told && changed
					evidence.Told(verify.Setting{Readable: true, Flags: "Klg", Extended: told}, time.Now())
					w.review(time.Now().Add(time.Hour))
				}
				holds := float64(b.N) * ids / reviewedAtOnce
				b.ReportMetric(float64(b.Elapsed().Microseconds())/holds, "µs/hold")
			})
		}
	}
}
