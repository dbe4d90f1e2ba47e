// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// ID identifies who watches: the namespace and the name of an object.
type ID = coalesce.ID

// Key is a Redis key to watch.
type Key struct {
	// Database is the number of the database.
	Database int
	Name     string
	// Class is the class of the commands for the expected type of the key.
	Class verify.Class
	// Final means that messages which leave the key are done: workers do not move them to another key.
	Final bool
}

// Options configure a [Watcher].
type Options struct {
	// Pool has the connections.
	Pool *connection.Pool
	// Directory knows which servers have which keys.
	Directory Directory
	// Deliver is called for each wake. It must not block. Who receives the wake calls [Watcher.Acknowledge].
	Deliver func(w coalesce.Wake)
	// Configure makes the watcher add the recommended flags to notify-keyspace-events of the servers.
	Configure bool
	// Timing has the intervals of connections. The zero value means the default ones.
	Timing node.Timing
	// Recorder receives what happens.
	Recorder Recorder
	// Log gets a line when a subscription begins or ends.
	Log logr.Logger
}

// Recorder receives what happens, for metrics. A server is given as [auth.Endpoint.String]. Its methods are called
// often and must not block.
type Recorder interface {
	node.Recorder
	// Coalesced is called for each event that causes no wake of its own, because one is pending.
	Coalesced()
	// Left is called when no keys of the server are watched any longer.
	Left(server string)
}

// Watcher wakes ids when the keys that they watch may have changed. Its methods are safe for concurrent use, and none
// except [Watcher.Start] blocks or does I/O.
type Watcher struct {
	options  Options
	throttle *coalesce.Throttle
	wake     func(id ID, cause coalesce.Cause) // Request of the throttle
	budgets  budget.Namespaces                 // how many events each namespace may take

	mu      sync.Mutex
	watches map[ID]*watch
	users   map[auth.Endpoint]int // how many ids watch keys of the endpoint
	nodes   map[database]*watchedNode
	// settings are those of the servers of the nodes.
	settings settings
	// changed is set while the running nodes may differ from these.
	changed coalesce.Signal
}

// watch is what one id watches.
type watch struct {
	endpoint auth.Endpoint
	keys     []Key
	// trackingOnly means that there is no subscription.
	trackingOnly bool
	since        time.Time // when this began
	// audits are those of the notifications, and trackingAudits those of the tracking, one for each of keys.
	audits, trackingAudits []verify.Audit
	// reported and tracking are what was reported last. tracked means that the keys are tracked.
	reported verify.Verdict
	tracking verify.Tracking
	tracked  bool
	// placements has where each of keys is. placedAt is the version of the Directory that says so.
	placements []placement
	placedAt   uint64
	// lost means that it was not known then where all keys are.
	lost bool
}

func newWatch(e auth.Endpoint, keys []Key, trackingOnly bool) *watch {
	return &watch{
		endpoint: e, keys: slices.Clone(keys), trackingOnly: trackingOnly, since: time.Now(),
		audits: make([]verify.Audit, len(keys)), trackingAudits: make([]verify.Audit, len(keys)), placements: make([]placement, len(keys)),
	}
}

// is reports whether this is what [newWatch] returns for these.
func (w *watch) is(e auth.Endpoint, keys []Key, trackingOnly bool) bool {
	return w.endpoint == e && w.trackingOnly == trackingOnly && slices.Equal(w.keys, keys)
}

// index returns the index of the key with this name, or a negative number if there is none.
func (w *watch) index(name string) int {
	return slices.IndexFunc(w.keys, func(key Key) bool { return key.Name == name })
}

// New returns a Watcher that watches nothing yet.
func New(options Options) *Watcher {
	if options.Timing == (node.Timing{}) {
		options.Timing = node.DefaultTiming()
	}
	w := &Watcher{
		options:  options,
		watches:  map[ID]*watch{},
		users:    map[auth.Endpoint]int{},
		nodes:    map[database]*watchedNode{},
		settings: settings{},
		changed:  coalesce.NewSignal(),
	}
	w.throttle = coalesce.NewThrottle(func(wake coalesce.Wake) { w.options.Deliver(wake) }, func() { w.options.Recorder.Coalesced() })
	w.wake = w.throttle.Request
	options.Pool.OnRestored(w.restored)
	options.Directory.OnChange(func(tenant, name string) { w.wake(ID{Namespace: tenant, Name: name}, coalesce.Changed) })
	return w
}

// restored wakes the ids that watch keys of a server which answers again.
func (w *Watcher) restored(e auth.Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	server := serverOf(e)
	for at, each := range w.nodes {
		if at.endpoint == server {
			each.WakeAll()
		}
	}
}

// NeedLeaderElection says that only the leader subscribes.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Sources says which sources of events are used.
type Sources int

// The choices.
const (
	// AnySource uses notifications, and tracks the keys while notifications are not verified.
	AnySource Sources = iota
	// OnlyTracking tracks the keys.
	OnlyTracking
)

// Ensure makes id watch exactly these keys of this endpoint. Their names must be different. It may be called before
// Start, and is cheap if nothing has changed. Each new key causes a wake with the cause Confirmed once it is subscribed
// to, or tracked. If id is a user of the endpoint in the Directory, a key that moves wakes it too.
func (w *Watcher) Ensure(id ID, e auth.Endpoint, from Sources, keys ...Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, watching := w.watches[id]
	if watching && old.is(e, keys, from == OnlyTracking) {
		w.relocate(id, old, time.Now())
		return
	}
	next := newWatch(e, keys, from == OnlyTracking)
	if !watching {
		old = &watch{}
	}
	w.throttle.Add(id) // Keys that move from now on wake.
	w.locate(next)
	w.watches[id] = next
	next.tracked = next.trackingOnly || old.tracked
	w.change(id, old.wants(), next.wants())
	w.users[e]++
	if watching {
		w.unuse(old.endpoint)
	}
}

// unuse records that an id does not watch keys of an endpoint any longer.
func (w *Watcher) unuse(e auth.Endpoint) {
	if w.users[e]--; w.users[e] == 0 {
		delete(w.users, e)
	}
}

// Forget ends the watching that Ensure began. No wake for id begins after it.
func (w *Watcher) Forget(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, watching := w.watches[id]
	if !watching {
		return
	}
	delete(w.watches, id)
	w.throttle.Remove(id)
	w.unuse(old.endpoint)
	w.change(id, old.wants(), nil)
}

// SetIdle says whether id is idle, which means that it can create nothing now. Growth wakes an idle id at most once a
// second.
func (w *Watcher) SetIdle(id ID, idle bool) {
	w.throttle.SetIdle(id, idle)
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok || !watched.tracked {
		return
	}
	for _, target := range watched.targets() {
		w.nodeOf(target).Block(target.key.Name, id, idle)
	}
}

// Acknowledge says that the wakes of id until now are handled: its keys are read after this. It returns the time of the
// first growth event of the keys since the last call, and zero if there was none.
func (w *Watcher) Acknowledge(id ID) (notified time.Time) { return w.throttle.Serve(id) }

// Start runs the nodes until ctx is done, and then returns nil. Call it once.
func (w *Watcher) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	running := map[*watchedNode]context.CancelFunc{}
	for {
		for _, fresh := range w.replace(running) {
			nodeCtx, cancel := context.WithCancel(ctx)
			running[fresh] = cancel
			workers.Go(func() {
				fresh.Run(nodeCtx)
				w.left(fresh)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
	}
}

// replace stops the nodes that are not needed any longer, and returns those that must be started. If a database was
// left and is watched again, it has a new one.
func (w *Watcher) replace(running map[*watchedNode]context.CancelFunc) (fresh []*watchedNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for old, cancel := range running {
		if w.nodes[old.database] != old {
			cancel()
			delete(running, old)
		}
	}
	for _, each := range w.nodes {
		if _, ok := running[each]; !ok {
			fresh = append(fresh, each)
		}
	}
	return fresh
}

// left calls the recorder if nobody watches the database of a node, or its server, any longer.
func (w *Watcher) left(old *watchedNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	server := old.endpoint.Value().String()
	if w.nodes[old.database] == nil {
		w.options.Recorder.Unsubscribed(server, old.number)
		w.options.Recorder.Untracked(server, old.number)
	}
	for each := range w.nodes {
		if each.endpoint == old.endpoint {
			return
		}
	}
	w.options.Recorder.Left(server)
}
