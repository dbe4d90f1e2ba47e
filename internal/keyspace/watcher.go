// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// ID names who watches: the namespace and the name of an object.
type ID = coalesce.ID

// Key is a Redis key that is watched.
type Key struct {
	// Database is the number of the one that holds the key.
	Database int
	Name     string
	// Class is that of the commands on the type which the key is meant to have.
	Class verify.Class
	// Final says that what leaves the key goes nowhere else.
	Final bool
}

func (k Key) channel() string { return "__keyspace@" + strconv.Itoa(k.Database) + "__:" + k.Name }

// Options are what a [Watcher] is made of.
type Options struct {
	// Pool has the connections to use.
	Pool *connection.Pool
	// Deliver is called for one wake after the other and may block; wakes of one id merge
	// meanwhile.
	Deliver func(ctx context.Context, w coalesce.Wake)
	// Configure says to add the recommended flags to the servers' notify-keyspace-events
	// where they are missing.
	Configure bool
	// Recorder is told what happens. It may be nil.
	Recorder Recorder
	// Log gets a line when a subscription begins or ends.
	Log logr.Logger
}

// Watcher wakes ids when the keys they watch may have changed. All its methods are safe
// for concurrent use, and none but [Watcher.Start] blocks or does I/O.
type Watcher struct {
	options   Options
	timing    timing
	coalescer *coalesce.Coalescer
	mark      func(id ID, cause coalesce.Cause) // of the coalescer

	mu          sync.Mutex
	watches     map[ID]*watch
	supervisors map[auth.Endpoint]*supervisor
	// changed is set while supervisors may differ from those that run.
	changed coalesce.Signal
	// evidenceChanged is set while verdicts may differ from what was reported.
	evidenceChanged coalesce.Signal
}

// watch is what one id watches.
type watch struct {
	endpoint auth.Endpoint
	keys     []Key
	audits   []verify.Audit // of the keys, in their order
	reported verify.Verdict
}

func newWatch(e auth.Endpoint, keys []Key) *watch {
	return &watch{endpoint: e, keys: slices.Clone(keys), audits: make([]verify.Audit, len(keys))}
}

// index returns which of the keys has a name, and less than zero if none has.
func (w *watch) index(name string) int {
	return slices.IndexFunc(w.keys, func(key Key) bool { return key.Name == name })
}

func (w *watch) includes(e auth.Endpoint, channel string) bool {
	return w.endpoint == e && slices.ContainsFunc(w.keys, func(key Key) bool { return key.channel() == channel })
}

// New returns a watcher that watches nothing yet.
func New(options Options) *Watcher {
	if options.Recorder == nil {
		options.Recorder = noRecorder{}
	}
	coalescer := coalesce.NewCoalescer(options.Recorder.Coalesced)
	return &Watcher{
		options:     options,
		timing:      defaultTiming(),
		coalescer:   coalescer,
		mark:        coalescer.Mark,
		watches:     map[ID]*watch{},
		supervisors: map[auth.Endpoint]*supervisor{},
		changed:     coalesce.NewSignal(),

		evidenceChanged: coalesce.NewSignal(),
	}
}

// NeedLeaderElection tells the manager that only the leader subscribes.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Ensure makes id watch these keys on this endpoint, and nothing else. No two of them may
// have the same name. It may be called before Start, and costs next to nothing when nothing
// changed. A wake with the cause Confirmed follows for each new name, once it is watched.
func (w *Watcher) Ensure(id ID, e auth.Endpoint, keys ...Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, watching := w.watches[id]
	if watching && old.endpoint == e && slices.Equal(old.keys, keys) {
		return
	}
	if !watching {
		old = &watch{}
	}
	next := newWatch(e, keys)
	w.watches[id] = next
	w.coalescer.Add(id)
	w.join(id, next, old)
	if watching {
		w.leave(id, old, next)
	}
}

// Forget ends what Ensure began. No wake for id is delivered that begins after it.
func (w *Watcher) Forget(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, watching := w.watches[id]
	if !watching {
		return
	}
	delete(w.watches, id)
	w.coalescer.Remove(id)
	w.leave(id, old, &watch{})
}

// SetIdle tells whether id is idle: it could create nothing if it were woken by growth. Growth wakes an idle id once a
// second at most.
func (w *Watcher) SetIdle(id ID, idle bool) { w.coalescer.SetIdle(id, idle) }

// TakeNotified returns when growth of the keys of id was first heard of since the last
// call, and zero if it was not.
func (w *Watcher) TakeNotified(id ID) time.Time { return w.coalescer.TakeNotified(id) }

// join begins the watching of next, but for the keys that old includes.
func (w *Watcher) join(id ID, next, old *watch) {
	to, ok := w.supervisors[next.endpoint]
	if !ok {
		to = w.newSupervisor(next.endpoint)
		w.supervisors[next.endpoint] = to
		w.changed.Set()
	}
	to.users++
	for _, key := range next.keys {
		to.classes[key.Class]++
		if ok && to.classes[key.Class] == 1 {
			to.due.Set()
		}
		if old.includes(next.endpoint, key.channel()) {
			continue
		}
		if confirmed := to.set.add(key.channel(), id); confirmed {
			w.mark(id, coalesce.Confirmed)
		}
	}
}

func (w *Watcher) newSupervisor(e auth.Endpoint) *supervisor {
	conn, evidence := w.options.Pool.Conn(e, 0), &verify.Evidence{}
	log := w.options.Log.WithValues("endpoint", e.String())
	s := &supervisor{
		conn:     conn,
		endpoint: e,
		set:      newChannelSet(w.mark),
		evidence: evidence,
		recorder: w.options.Recorder,
		timing:   w.timing,
		log:      log,
		due:      coalesce.NewSignal(),
		classes:  map[verify.Class]int{},

		evidenceChanged: w.evidenceChanged,
	}
	s.inspector = &inspector{
		conn: conn, evidence: evidence, changed: w.evidenceChanged, log: log,
		configure: w.options.Configure, classes: func() []verify.Class { return w.classes(s) },
	}
	return s
}

// classes are those of the keys that are watched on the endpoint of a supervisor.
func (w *Watcher) classes(of *supervisor) []verify.Class {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(of.classes))
}

// leave ends the watching of old, but for the keys that next includes.
func (w *Watcher) leave(id ID, old, next *watch) {
	from := w.supervisors[old.endpoint]
	for _, key := range old.keys {
		from.classes[key.Class]--
		if from.classes[key.Class] == 0 {
			delete(from.classes, key.Class)
		}
		if !next.includes(old.endpoint, key.channel()) {
			from.set.remove(key.channel(), id)
		}
	}
	from.users--
	if from.users == 0 {
		delete(w.supervisors, old.endpoint)
		w.changed.Set()
	}
}

// Start keeps the subscriptions and delivers wakes until ctx is done, and then returns
// nil. It may be called once.
func (w *Watcher) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	defer w.coalescer.Stop()
	defer workers.Wait()
	workers.Go(func() { w.coalescer.Run(ctx, w.options.Deliver) })
	workers.Go(func() { w.reviewer(ctx) })

	running := map[*supervisor]context.CancelFunc{}
	for {
		for _, fresh := range w.replace(running) {
			supervised, cancel := context.WithCancel(ctx)
			running[fresh] = cancel
			workers.Go(func() {
				fresh.run(supervised)
				w.left(fresh.endpoint)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
	}
}

// replace ends the supervisors that are not needed any more, and returns those that do
// not run yet. An endpoint that was left and is watched again has a new one.
func (w *Watcher) replace(running map[*supervisor]context.CancelFunc) []*supervisor {
	w.mu.Lock()
	defer w.mu.Unlock()
	for old, cancel := range running {
		if w.supervisors[old.endpoint] != old {
			cancel()
			delete(running, old)
		}
	}
	var fresh []*supervisor
	for _, s := range w.supervisors {
		if _, ok := running[s]; !ok {
			fresh = append(fresh, s)
		}
	}
	return fresh
}

// left tells the recorder that nobody watches the endpoint, unless somebody does again.
func (w *Watcher) left(e auth.Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, watched := w.supervisors[e]; !watched {
		w.options.Recorder.Left(e.String())
	}
}
