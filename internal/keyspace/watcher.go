// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// channelPrefix makes a channel of a key in database 0.
const channelPrefix = "__keyspace@0__:"

// Options are what a [Watcher] is made of.
type Options[K comparable] struct {
	// Pool has the connections to use.
	Pool *redisconn.Pool
	// Deliver is called for one wake after the other and may block; wakes of one id merge
	// meanwhile.
	Deliver func(ctx context.Context, w Wake[K])
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
type Watcher[K comparable] struct {
	options   Options[K]
	timing    sessionTiming
	coalescer *coalescer[K]
	mark      func(id K, cause Cause) // of the coalescer

	mu          sync.Mutex
	watches     map[K]*watch
	supervisors map[redisconn.Endpoint]*supervisor[K]
	// changed holds a token while supervisors may differ from those that run.
	changed chan struct{}
	// evidenceChanged holds a token while verdicts may differ from what was reported.
	evidenceChanged chan struct{}
}

// watch is what one id watches.
type watch struct {
	endpoint redisconn.Endpoint
	keys     []string
	audits   map[string]*proof.Audit // by key
	reported proof.Verdict
}

func newWatch(e redisconn.Endpoint, keys []string) *watch {
	w := &watch{endpoint: e, keys: slices.Clone(keys), audits: map[string]*proof.Audit{}}
	for _, key := range keys {
		w.audits[key] = &proof.Audit{}
	}
	return w
}

func (w *watch) includes(e redisconn.Endpoint, key string) bool {
	return w.endpoint == e && slices.Contains(w.keys, key)
}

// New returns a watcher that watches nothing yet.
func New[K comparable](options Options[K]) *Watcher[K] {
	if options.Recorder == nil {
		options.Recorder = noRecorder{}
	}
	coalescer := newCoalescer[K](productionPace(), options.Recorder.Coalesced)
	return &Watcher[K]{
		options:     options,
		timing:      productionSessionTiming(),
		coalescer:   coalescer,
		mark:        coalescer.mark,
		watches:     map[K]*watch{},
		supervisors: map[redisconn.Endpoint]*supervisor[K]{},
		changed:     make(chan struct{}, 1),

		evidenceChanged: make(chan struct{}, 1),
	}
}

// NeedLeaderElection tells the manager that only the leader subscribes.
func (w *Watcher[K]) NeedLeaderElection() bool { return true }

// Ensure makes id watch these keys on this endpoint, and nothing else. It may be called
// before Start, and costs next to nothing when nothing changed. A wake with the cause
// Confirmed follows for each new key, once it is watched.
func (w *Watcher[K]) Ensure(id K, e redisconn.Endpoint, keys ...string) {
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
	w.coalescer.add(id)
	w.join(id, next, old)
	if watching {
		w.leave(id, old, next)
	}
}

// Forget ends what Ensure began. No wake for id is delivered that begins after it.
func (w *Watcher[K]) Forget(id K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, watching := w.watches[id]
	if !watching {
		return
	}
	delete(w.watches, id)
	w.coalescer.remove(id)
	w.leave(id, old, &watch{})
}

// Pace tells whether id could create anything if it were woken by growth. While it
// could not, growth wakes it once a second at most.
func (w *Watcher[K]) Pace(id K, canCreate bool) { w.coalescer.observed(id, canCreate) }

// TakeNotified returns when growth of the keys of id was first heard of since the last
// call, and zero if it was not.
func (w *Watcher[K]) TakeNotified(id K) time.Time { return w.coalescer.takeNotified(id) }

// join begins the watching of next, but for the keys that old includes.
func (w *Watcher[K]) join(id K, next, old *watch) {
	to, ok := w.supervisors[next.endpoint]
	if !ok {
		to = w.newSupervisor(next.endpoint)
		w.supervisors[next.endpoint] = to
		notify(w.changed)
	}
	to.users++
	for _, key := range next.keys {
		if old.includes(next.endpoint, key) {
			continue
		}
		if confirmed := to.index.add(channelPrefix+key, id); confirmed {
			w.mark(id, Confirmed)
		}
	}
}

func (w *Watcher[K]) newSupervisor(e redisconn.Endpoint) *supervisor[K] {
	return &supervisor[K]{
		conn:      w.options.Pool.Conn(e),
		endpoint:  e,
		index:     newIndex[K](),
		evidence:  &proof.Evidence{},
		mark:      w.mark,
		recorder:  w.options.Recorder,
		configure: w.options.Configure,
		timing:    w.timing,
		log:       w.options.Log.WithValues("endpoint", e.String()),
		began:     make(chan struct{}, 1),

		evidenceChanged: w.evidenceChanged,
	}
}

// leave ends the watching of old, but for the keys that next includes.
func (w *Watcher[K]) leave(id K, old, next *watch) {
	from := w.supervisors[old.endpoint]
	for _, key := range old.keys {
		if !next.includes(old.endpoint, key) {
			from.index.remove(channelPrefix+key, id)
		}
	}
	from.users--
	if from.users == 0 {
		delete(w.supervisors, old.endpoint)
		notify(w.changed)
	}
}

// Start keeps the subscriptions and delivers wakes until ctx is done, and then returns
// nil. It may be called once.
func (w *Watcher[K]) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	defer w.coalescer.stop()
	defer workers.Wait()
	workers.Go(func() { w.pump(ctx) })
	workers.Go(func() { w.reviewer(ctx) })

	running := map[*supervisor[K]]context.CancelFunc{}
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
func (w *Watcher[K]) replace(running map[*supervisor[K]]context.CancelFunc) []*supervisor[K] {
	w.mu.Lock()
	defer w.mu.Unlock()
	for old, cancel := range running {
		if w.supervisors[old.endpoint] != old {
			cancel()
			delete(running, old)
		}
	}
	var fresh []*supervisor[K]
	for _, s := range w.supervisors {
		if _, ok := running[s]; !ok {
			fresh = append(fresh, s)
		}
	}
	return fresh
}

// left tells the recorder that nobody watches the endpoint, unless somebody does again.
func (w *Watcher[K]) left(e redisconn.Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, watched := w.supervisors[e]; !watched {
		w.options.Recorder.Left(e.String())
	}
}

// pump delivers the wakes that are ready.
func (w *Watcher[K]) pump(ctx context.Context) {
	for {
		wake, ok := w.coalescer.take()
		if ok {
			w.options.Deliver(ctx, wake)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-w.coalescer.signal:
		}
	}
}
