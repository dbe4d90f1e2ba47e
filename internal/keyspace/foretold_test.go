// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
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
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// moody is a server that changes its mind.
type moody struct {
	mu sync.Mutex
	// conns are the connections with a subscription or with tracked keys.
	conns map[net.Conn]*sync.Mutex
	// forbids means that subscriptions are rejected, and busy that this is not because of a permission.
	forbids, busy bool
	// readable means that the setting with these flags can be read.
	readable bool
	flags    string
}

func (m *moody) serve(conn net.Conn) {
	var writing sync.Mutex
	defer m.set(func() { delete(m.conns, conn) })
	for args := range redistest.Commands(conn) {
		var reply string
		m.set(func() {
			reply = m.reply(args)
			if args[0] == "subscribe" {
				m.conns[conn] = &writing
			}
		})
		writing.Lock()
		_, err := io.WriteString(conn, reply)
		writing.Unlock()
		if err != nil {
			return
		}
	}
}

func (m *moody) reply(args []string) string {
	switch args[0] {
	case "config":
		if !m.readable {
			return "-NOPERM no\r\n"
		}
		return fmt.Sprintf("%%1\r\n+%s\r\n$%d\r\n%s\r\n", verify.Parameter, len(m.flags), m.flags)
	case "subscribe":
		if m.forbids && m.busy {
			return "-BUSY no\r\n"
		}
		if m.forbids {
			return "-NOPERM no\r\n"
		}
	case "client":
		return "+OK\r\n"
	case "hlen":
		return ":0\r\n"
	}
	return redistest.UsualAnswer(args)
}

// send sends a message to all subscribers.
func (m *moody) send(text string) {
	m.set(func() {
		for conn, writing := range m.conns {
			writing.Lock()
			_, _ = io.WriteString(conn, text)
			writing.Unlock()
		}
	})
}

// hangUp ends all subscriptions.
func (m *moody) hangUp() {
	m.set(func() {
		for conn := range m.conns {
			_ = conn.Close()
		}
	})
}

// set changes its mind.
func (m *moody) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// Whatever happens, in any order: a verdict that differs from the one that was reported to an id last has woken the id,
// or was foretold.
func TestNoChangeOfAVerdictIsMissed(t *testing.T) {
	t.Parallel()
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20 // They are the same in each run.
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := newHappenings(t, rand.New(rand.NewPCG(seed, 1)))
			all := h.all()
			var history []string
			for range 100 {
				next := all[h.random.IntN(len(all))]
				history = append(history, next.name)
				next.happens()
				h.reconcile()
				for _, id := range h.ids() {
					h.Watcher.mu.Lock()
					verdict, _ := h.verdict(h.watches[id], time.Now())
					reported := h.watches[id].reported
					h.Watcher.mu.Unlock()
					NewWithT(t).Expect(reported.Reason).To(Equal(verdict.Reason), "%s after %v, seed %d", id.Name, history, seed)
				}
			}
		})
	}
}

// happenings makes things happen to a watcher at random.
type happenings struct {
	*Watcher
	server *moody
	random *rand.Rand
	depth  int64
	// woken are the ids to reconcile, and until is when the state of the others changes by time.
	mu    sync.Mutex
	woken map[ID]bool
	until map[ID]time.Time
}

var moodyEndpoint = auth.Endpoint{Address: "10.0.0.1:6379"}

// newHappenings runs a watcher of four ids with two keys each.
func newHappenings(t *testing.T, random *rand.Rand) *happenings {
	t.Helper()
	h := &happenings{
		server: &moody{conns: map[net.Conn]*sync.Mutex{}, readable: true, flags: "Klg"},
		random: random, woken: map[ID]bool{}, until: map[ID]time.Time{},
	}
	pool := connection.NewPool(connection.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		return redistest.Pipe(h.server.serve), nil
	}})
	h.Watcher = New(Options{
		Pool: pool, Directory: topology.New(pool, logr.Discard()), Deliver: func(w coalesce.Wake) { h.wake(w.ID) },
		Recorder: newRecorded(), Log: logr.Discard(),
	})
	for i := range 4 {
		id := ID{Namespace: "tenant", Name: strconv.Itoa(i)}
		h.Ensure(id, moodyEndpoint, AnySource, list(fmt.Sprintf("queue-%d-0", i)), list(fmt.Sprintf("queue-%d-1", i)))
		h.wake(id)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { _ = h.Start(t.Context()) })
	t.Cleanup(running.Wait)
	h.reconcile()
	return h
}

func (h *happenings) wake(id ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woken[id] = true
}

func (h *happenings) ids() (all []ID) {
	h.Watcher.mu.Lock()
	defer h.Watcher.mu.Unlock()
	for id := range h.watches {
		all = append(all, id)
	}
	return all
}

// reconcile reads the state of the ids that were woken, or whose state was to change, until there are none.
func (h *happenings) reconcile() {
	for again := true; again; {
		synctest.Wait()
		again = false
		for _, id := range h.ids() {
			h.mu.Lock()
			until, woken := h.until[id], h.woken[id]
			delete(h.woken, id)
			h.mu.Unlock()
			if woken || !until.IsZero() && !time.Now().Before(until) {
				h.Acknowledge(id)
				h.until[id] = h.State(id).ValidUntil
				again = true
			}
		}
	}
}

type happening struct {
	name    string
	happens func()
}

func (h *happenings) all() []happening {
	return []happening{
		{"the session ends", h.server.hangUp},
		{"an event", func() { h.server.send(redistest.Push("message", channelPrefix+h.key(), "lpush")) }},
		{"an event without a meaning", func() { h.server.send(redistest.Push("message", channelPrefix+h.key(), "lset")) }},
		{"a flood", h.flood},
		{"forbidden", func() { h.server.set(func() { h.server.forbids, h.server.busy = true, false }) }},
		{"refused for now", func() { h.server.set(func() { h.server.forbids, h.server.busy = true, true }) }},
		{"allowed", func() { h.server.set(func() { h.server.forbids = false }) }},
		{"a class comes", func() {
			h.Ensure(named("new"), moodyEndpoint, AnySource, Key{Name: "hash", Class: verify.ClassHash})
			h.wake(named("new")) // It is a reconcile that says so.
		}},
		{"a class goes", func() { h.Forget(named("new")) }},
		{"the setting is another", func() {
			h.server.set(func() {
				h.server.readable, h.server.flags = h.random.IntN(2) == 0, []string{"", "Klg", "KA"}[h.random.IntN(3)]
			})
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
	one := redistest.Push("message", channelPrefix+h.key(), "lpop")
	for range 2 * budget.KeyBurst / 100 {
		h.server.send(strings.Repeat(one, 100))
	}
}

func (h *happenings) grow() {
	h.depth++
	grown := h.key()
	id := ID{Namespace: "tenant", Name: strings.Split(grown, "-")[1]}
	h.Observed(id, grown, h.depth, time.Now())
	h.wake(id) // The state is read after the depths.
}
