// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
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
	w := New(Options{Pool: pool, Directory: topology.New(pool, logr.Discard()), Deliver: func(coalesce.Wake) { /* nobody reads */ }, Recorder: newRecorded(), Log: logr.Discard()})
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

// Whatever happens, in any order: a verdict that differs from the one that an id was told last has woken the id, or was
// foretold.
func TestNoChangeOfAVerdictIsMissed(t *testing.T) {
	t.Parallel()
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20 // They are the same in each run.
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := newHappenings(rand.New(rand.NewPCG(seed, 1)))
			all := h.all()
			var history []string
			for range 100 {
				next := all[h.random.IntN(len(all))]
				history = append(history, next.name)
				next.happens()
				h.reconcile()
				for id, watched := range h.watches {
					verdict, _ := h.verdict(watched, time.Now())
					NewWithT(t).Expect(watched.reported.Reason).To(Equal(verdict.Reason), "%s after %v, seed %d", id.Name, history, seed)
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
	// until is when the state of an id changes by time.
	until map[ID]time.Time

	mu    sync.Mutex
	woken map[ID]bool // the ids to reconcile
}

func newHappenings(random *rand.Rand) *happenings {
	h := &happenings{Watcher: newVerified(4, 2), random: random, woken: map[ID]bool{}, until: map[ID]time.Time{}}
	h.options.Deliver = func(w coalesce.Wake) { h.wake(w.ID) }
	h.server = h.supervisors[auth.Endpoint{Address: "10.0.0.1:6379"}]
	h.server.received = func() { /* not counted */ }
	for id := range h.watches {
		h.wake(id)
	}
	h.reconcile()
	return h
}

func (h *happenings) wake(id ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woken[id] = true
}

// takeWoken returns the ids that were woken since the last call.
func (h *happenings) takeWoken() map[ID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	woken := h.woken
	h.woken = map[ID]bool{}
	return woken
}

// reconcile reads the state of the ids that were woken, or whose state was to change.
func (h *happenings) reconcile() {
	synctest.Wait()
	woken := h.takeWoken()
	for id := range h.watches {
		if until := h.until[id]; woken[id] || !until.IsZero() && !time.Now().Before(until) {
			h.Serve(id)
			h.until[id] = h.State(id).ValidUntil
		}
	}
}

type happening struct {
	name    string
	happens func()
}

func (h *happenings) all() []happening {
	set, evidence := h.server.set, h.server.evidence
	begin := func() {
		set.reset()
		evidence.Begin()
		subscribeAll(set)
	}
	return []happening{
		{"the session ends", set.reset},
		{"a session begins", begin},
		{"subscribed", func() { subscribeAll(set) }},
		{"unsubscribed", func() { unsubscribeAll(set) }},
		{"an event", func() { _ = h.server.event(list(h.key()).channel(), "lpush") }},
		{"an event without a meaning", func() { _ = h.server.event(list(h.key()).channel(), "lset") }},
		{"a flood", h.flood},
		{"refused", func() { set.refused(set.takeWanted(2), true, time.Now().Add(time.Minute)) }},
		{"refused for now", func() { set.refused(set.takeWanted(2), false, time.Now().Add(time.Second)) }},
		{"tried again", func() { set.retry(time.Now()) }},
		{"a class comes", func() {
			h.Ensure(named("new"), h.server.endpoint, AnySource, Key{Name: "hash", Class: verify.ClassHash})
			h.wake(named("new")) // It is a reconcile that says so.
		}},
		{"a class goes", func() { h.Forget(named("new")) }},
		{"the setting is read", func() {
			flags := []verify.Flags{"", "Klg", "KA"}[h.random.IntN(3)]
			if evidence.Told(verify.Setting{Readable: h.random.IntN(2) == 0, Flags: flags}, time.Now()) {
				h.server.inspector.changed()
			}
		}},
		{"growth", h.grow},
		{"growth", h.grow},
		{"time passes", func() { h.wait(time.Duration(h.random.IntN(100)) * time.Second) }},
		{"a second passes", func() { h.wait(time.Second) }},
	}
}

// wait lets time pass, in steps in which ids are reconciled.
func (h *happenings) wait(d time.Duration) {
	for range d / (time.Second / 4) {
		time.Sleep(time.Second / 4)
		h.reconcile()
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
	id := ID{Namespace: "tenant", Name: strings.Split(grown, "-")[1]}
	h.Observed(id, grown, h.depth, time.Now())
	h.wake(id) // The state is read after the depths.
}

// subscribeAll confirms all subscriptions that are wanted.
func subscribeAll(set *channelSet) {
	for taken := set.takeWanted(maxChannels); len(taken) > 0; taken = set.takeWanted(maxChannels) {
		for _, channel := range taken {
			set.subscribed(channel)
		}
	}
}

// unsubscribeAll confirms that all channels are unsubscribed from that are not wanted.
func unsubscribeAll(set *channelSet) {
	for _, channel := range set.takeUnwanted(maxChannels) {
		set.unsubscribed(channel)
	}
}
