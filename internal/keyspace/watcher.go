// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// channelPrefix makes a channel of a key in database 0.
const channelPrefix = "__keyspace@0__:"

// Watcher wakes ids when the keys they watch may have changed. All its methods are safe
// for concurrent use, and none but [Watcher.Start] blocks or does I/O.
type Watcher[K comparable] struct {
	pool      *redisconn.Pool
	deliver   func(ctx context.Context, w Wake[K])
	log       logr.Logger
	timing    sessionTiming
	coalescer *coalescer[K]
	mark      func(id K, cause Cause) // of the coalescer

	mu          sync.Mutex
	watches     map[K]watch
	supervisors map[redisconn.Endpoint]*supervisor[K]
	// changed holds a token while supervisors may differ from those that run.
	changed chan struct{}
}

// watch is what one id watches.
type watch struct {
	endpoint redisconn.Endpoint
	keys     []string
}

// New returns a watcher that uses the connections of pool. deliver is called for one
// wake after the other and may block; wakes of one id merge meanwhile.
func New[K comparable](
	pool *redisconn.Pool, deliver func(ctx context.Context, w Wake[K]), log logr.Logger,
) *Watcher[K] {
	coalescer := newCoalescer[K](productionPace())
	return &Watcher[K]{
		pool:        pool,
		deliver:     deliver,
		log:         log,
		timing:      productionSessionTiming(),
		coalescer:   coalescer,
		mark:        coalescer.mark,
		watches:     map[K]watch{},
		supervisors: map[redisconn.Endpoint]*supervisor[K]{},
		changed:     make(chan struct{}, 1),
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
	w.coalescer.add(id)
	w.watches[id] = watch{endpoint: e, keys: slices.Clone(keys)}
	to := w.supervisorOf(e)
	to.users++
	for _, key := range keys {
		if watching && old.endpoint == e && slices.Contains(old.keys, key) {
			continue
		}
		if to.index.add(channelPrefix+key, id) {
			w.mark(id, Confirmed)
		}
	}
	if !watching {
		return
	}
	kept := keys
	if old.endpoint != e {
		kept = nil
	}
	w.leave(id, old, kept)
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
	w.leave(id, old, nil)
}

// Observed tells whether id could create anything if it were woken by growth. While it
// could not, growth wakes it once a second at most.
func (w *Watcher[K]) Observed(id K, canCreate bool) { w.coalescer.observed(id, canCreate) }

// supervisorOf returns the supervisor of an endpoint. Start will run it.
func (w *Watcher[K]) supervisorOf(e redisconn.Endpoint) *supervisor[K] {
	found, ok := w.supervisors[e]
	if !ok {
		found = &supervisor[K]{
			conn:   w.pool.Conn(e),
			index:  newIndex[K](),
			mark:   w.mark,
			timing: w.timing,
			log:    w.log.WithValues("endpoint", e),
		}
		w.supervisors[e] = found
		notify(w.changed)
	}
	return found
}

// leave ends the watching of old's keys, except those that are kept.
func (w *Watcher[K]) leave(id K, old watch, kept []string) {
	from := w.supervisors[old.endpoint]
	for _, key := range old.keys {
		if !slices.Contains(kept, key) {
			from.index.remove(channelPrefix+key, id)
		}
	}
	from.users--
	if from.users == 0 {
		delete(w.supervisors, old.endpoint)
		notify(w.changed)
	}
}

// Start keeps the subscriptions and delivers wakes until ctx is done.
func (w *Watcher[K]) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	defer w.coalescer.stop()
	defer workers.Wait()
	workers.Go(func() { w.pump(ctx) })

	running := map[*supervisor[K]]context.CancelFunc{}
	for {
		for _, s := range w.startable(running) {
			supervised, cancel := context.WithCancel(ctx)
			running[s] = cancel
			workers.Go(func() { s.run(supervised) })
		}
		select {
		case <-ctx.Done():
			for _, cancel := range running {
				cancel()
			}
			return nil
		case <-w.changed:
		}
	}
}

// startable stops the supervisors that nobody needs any more, and returns those that
// are to be started.
func (w *Watcher[K]) startable(running map[*supervisor[K]]context.CancelFunc) []*supervisor[K] {
	w.mu.Lock()
	defer w.mu.Unlock()
	var fresh []*supervisor[K]
	needed := map[*supervisor[K]]bool{}
	for _, s := range w.supervisors {
		needed[s] = true
		if _, ok := running[s]; !ok {
			fresh = append(fresh, s)
		}
	}
	for s, cancel := range running {
		if !needed[s] {
			cancel()
			delete(running, s)
		}
	}
	return fresh
}

// pump delivers the wakes that are ready.
func (w *Watcher[K]) pump(ctx context.Context) {
	for {
		wake, ok := w.coalescer.take()
		if ok {
			w.deliver(ctx, wake)
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
