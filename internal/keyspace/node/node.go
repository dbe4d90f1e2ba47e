// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// ID identifies who watches a key.
type ID = coalesce.ID

// Interest is how an id watches a key. The zero value means that it does not.
type Interest struct {
	// Class is the class of the command that reads the length of the key.
	Class verify.Class
	// Notify means by keyspace notifications, and Track by client tracking.
	Notify, Track bool
	// Asking means that the slot of the key is being moved to this node of a Cluster, which answers after ASKING only.
	Asking bool
}

// Timing has the intervals of a node, which tests shorten.
type Timing struct {
	// PingAfter is the time without a message before a PING on a connection that tracks keys. It is below the setting
	// timeout of Redis, after which Redis closes a connection that sends nothing, unless that is shorter than three
	// seconds.
	PingAfter time.Duration
	// SubscriberPingAfter is that of other connections. Redis does not close them: they have subscriptions.
	SubscriberPingAfter time.Duration
	// AnswerWithin is how long a reply may take. Then the connection is closed.
	AnswerWithin time.Duration
	// ForbiddenRetry is the wait before what the user may not do is tried again, and RefusedRetry before what was rejected
	// for another reason.
	ForbiddenRetry, RefusedRetry time.Duration
	// Cooldown is how long keys with too many notifications are not subscribed to at most. After that, they must have few
	// of them for so long until notifications count as verified again.
	Cooldown time.Duration
	// The time between two sessions that track keys doubles after each one that is shorter than ShortSession, up to
	// LongestPause.
	ShortSession, LongestPause time.Duration
}

// DefaultTiming returns the intervals of the operator.
func DefaultTiming() Timing {
	return Timing{
		PingAfter:           2 * time.Second,
		SubscriberPingAfter: 5 * time.Second,
		AnswerWithin:        10 * time.Second,
		ForbiddenRetry:      failure.RejectedRetry,
		RefusedRetry:        time.Second,
		Cooldown:            time.Minute,
		ShortSession:        time.Minute,
		LongestPause:        10 * time.Minute,
	}
}

// SettingLock is locked while it has an element.
type SettingLock chan struct{}

// NewSettingLock returns a SettingLock that is not locked.
func NewSettingLock() SettingLock { return make(SettingLock, 1) }

// Counter counts messages. Servers are given by name.
type Counter interface {
	// Received returns a function to call for each notification of a server, and Invalidated for each message about
	// changed keys.
	Received(server string) (count func())
	Invalidated(server string) (count func())
}

// Recorder receives what happens, for metrics. Servers are given by name, and reasons are those of package failure. Its
// methods must not block.
type Recorder interface {
	Counter
	// Subscribed is called when a subscription begins or ends, and with false before the first attempt. Unsubscribed is
	// called when no notifications are wanted any longer.
	Subscribed(server string, database int, subscribed bool)
	Unsubscribed(server string, database int)
	// Tracked is called when the tracking of keys begins or ends, and with false before the first attempt. Untracked is
	// called when no keys are to be tracked any longer.
	Tracked(server string, database int, tracked bool)
	Untracked(server string, database int)
	// Ended is called when a connection, or an attempt to make one, has ended, and when the server refuses to track keys.
	Ended(server, reason string)
}

// Options configure a [Node].
type Options struct {
	// Conn is the connection to the database with the keys, and Database its number.
	Conn     *connection.Conn
	Database int
	// Name is that of the server in metrics.
	Name string
	// Wake is called for each id whose key may have changed. It must not block, and must not use the Node.
	Wake func(id ID, cause coalesce.Cause)
	// Budgets has how many messages each namespace may take.
	Budgets *budget.Namespaces
	// Configure has the recommended flags added to notify-keyspace-events if they are missing. Setting, which the nodes of
	// one server share, is locked meanwhile.
	Configure bool
	Setting   SettingLock
	Recorder  Recorder
	Timing    Timing
	Log       logr.Logger
}

// Node watches keys of one database. Its methods are safe for concurrent use, and none except [Node.Run] blocks.
type Node struct {
	options Options
	prefix  string // of the channels
	// evidence is what shows whether the server sends notifications.
	evidence *verify.Evidence
	// changed is set while there may be something to send. inspect is set when a session has its first subscription, and
	// when keys of another class are watched.
	changed, inspect coalesce.Signal
	// received and invalidations count messages, from when the node runs.
	received, invalidations func()

	mu   sync.Mutex
	keys map[string]*key
	// classes has how many watchers want notifications of keys of each class.
	classes map[verify.Class]int
	subscriptions
	readings
	floods
}

// key is a row of the table.
type key struct {
	name     string
	watchers map[ID]*watcher
	sub      subscription
	read     reading
}

type watcher struct {
	Interest
	// blocked means that the id can create nothing now.
	blocked bool
}

// New returns a Node that watches nothing.
func New(options Options) *Node {
	return &Node{
		options: options, prefix: "__keyspace@" + strconv.Itoa(options.Database) + "__:",
		evidence: &verify.Evidence{}, changed: coalesce.NewSignal(), inspect: coalesce.NewSignal(),
		keys: map[string]*key{}, classes: map[verify.Class]int{},
		subscriptions: newSubscriptions(), floods: floods{unsolicitedQuota: budget.NewUnsolicited()},
	}
}

// Evidence returns what shows whether the server sends notifications.
func (n *Node) Evidence() *verify.Evidence { return n.evidence }

// Classes returns the classes of the keys whose notifications are wanted.
func (n *Node) Classes() []verify.Class {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.classes))
}

// Watch makes id watch a key in this way, and no longer as before. It is woken with the cause Confirmed when that has
// begun, which is at once if the key is watched so for others. blocked is as in [Node.Block].
func (n *Node) Watch(name string, id ID, as Interest, blocked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.keys[name]
	if k == nil {
		k = &key{name: name, watchers: map[ID]*watcher{}, read: reading{index: notDue}}
		k.sub = subscription{since: time.Now(), taken: budget.NewKey()}
		n.keys[name] = k
	}
	var before Interest
	if known := k.watchers[id]; known != nil {
		before = known.Interest
	}
	if k.watchers[id] = (&watcher{as, blocked}); !as.Notify && !as.Track {
		delete(k.watchers, id)
	}
	n.countClass(as, 1)
	n.countClass(before, -1)
	n.plan(k)
	if as.Notify && !before.Notify && k.sub.status == present || as.Track && !before.Track && k.read.state == valid {
		n.options.Wake(id, coalesce.Confirmed)
	}
}

// countClass counts a watcher who wants notifications.
func (n *Node) countClass(of Interest, more int) {
	if !of.Notify {
		return
	}
	if len(n.classes) == 0 {
		n.options.Recorder.Subscribed(n.options.Name, n.options.Database, false)
	}
	n.classes[of.Class] += more
	switch {
	case n.classes[of.Class] == 0:
		delete(n.classes, of.Class)
		if len(n.classes) == 0 {
			n.options.Recorder.Unsubscribed(n.options.Name, n.options.Database)
		}
	case n.classes[of.Class] == 1 && more > 0:
		n.inspect.Set()
	}
}

// Block says whether id can create nothing now. A key that only such ids watch is read once a second at most.
func (n *Node) Block(name string, id ID, blocked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.keys[name]
	if k == nil || k.watchers[id] == nil || k.watchers[id].blocked == blocked {
		return
	}
	k.watchers[id].blocked = blocked
	n.pace(k)
}

// plan decides what must be sent about a key, and forgets a key that nobody watches. While a reply about the key is
// outstanding, the reply decides.
func (n *Node) plan(k *key) {
	n.planSubscription(k)
	n.planReading(k)
	if len(k.watchers) == 0 && (k.sub.status == absent || k.sub.status == denied) {
		delete(n.keys, k.name)
	}
}

func (k *key) wanted(how func(Interest) bool) bool {
	for _, w := range k.watchers {
		if how(w.Interest) {
			return true
		}
	}
	return false
}

func notified(i Interest) bool { return i.Notify }
func tracked(i Interest) bool  { return i.Track }

// wake wakes those who watch a key in this way.
func (n *Node) wake(k *key, how func(Interest) bool, cause coalesce.Cause) {
	for id, w := range k.watchers {
		if how(w.Interest) {
			n.options.Wake(id, cause)
		}
	}
}

// WakeAll wakes all ids, because something about the server has changed, such as that it answers again: their reads may
// have failed during the outage, and if the session has survived it, nothing else wakes them.
func (n *Node) WakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wakeAllLocked()
}

func (n *Node) wakeAllLocked() {
	for _, k := range n.keys {
		for id := range k.watchers {
			n.options.Wake(id, coalesce.Changed)
		}
	}
}

// State is what is known about a key.
type State struct {
	// Subscription is that to its notifications.
	Subscription verify.Subscription
	// Tracked means that the key was read in this session, and is read again after each change. Valid says since when the
	// length has been valid, so that the server must report the next change.
	Tracked bool
	Valid   verify.Subscription
	// Proven means that an invalidation has come in this session. Until then it is not known whether the server sends any.
	Proven bool
}

// State returns what is known about a key.
func (n *Node) State(name string) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.keys[name]
	if k == nil {
		return State{}
	}
	return State{
		Subscription: k.sub.state(),
		Tracked:      k.read.tracked,
		Valid:        verify.Subscription{Present: k.read.state == valid, Since: k.read.seenAt, HeardAt: k.read.seenAt},
		Proven:       n.proven,
	}
}

// Run watches the keys until ctx is done. While the server is down it waits for the keeper of the server.
func (n *Node) Run(ctx context.Context) {
	var inspecting sync.WaitGroup
	defer inspecting.Wait()
	n.received, n.invalidations = n.options.Recorder.Received(n.options.Name), n.options.Recorder.Invalidated(n.options.Name)
	inspecting.Go(func() { n.inspectSetting(ctx) })
	var backoff connection.Backoff
	var lastEnd string
	for n.options.Conn.WaitUp(ctx) == nil {
		backoff.Begin()
		worked, err := n.converse(ctx)
		if ctx.Err() != nil {
			return
		}
		if worked && !errors.Is(err, errFlooded) {
			backoff.Reset()
		}
		end := failure.Classify(err)
		n.options.Recorder.Ended(n.options.Name, string(end.Reason))
		if worked || end.Message != lastEnd {
			n.options.Log.Info("Not connected for notifications and tracking", "cause", err.Error())
			lastEnd = end.Message
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Delay()):
		}
	}
}

// converse uses one connection until it ends, and its successor if the credentials change. It reports whether the
// server has let it watch anything.
func (n *Node) converse(ctx context.Context) (worked bool, err error) {
	wire, err := n.options.Conn.OpenWire(ctx)
	if err != nil {
		return false, err
	}
	var confirmed bool
	for wire != nil {
		current := newSession(n, wire, confirmed)
		wire, err = n.options.Conn.UseWire(ctx, wire, current.run)
		confirmed = confirmed || current.confirmed
		n.end(wire != nil)
	}
	if confirmed {
		n.options.Recorder.Subscribed(n.options.Name, n.options.Database, false)
	}
	tracked := n.endTracking()
	return confirmed || tracked, err
}

// end records the end of a connection: the server reports nothing any longer. If the session moves to another
// connection, all begins there at once. Otherwise it wakes those who watched keys.
func (n *Node) end(moves bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.keys {
		if !moves && (k.sub.status == present || k.sub.resumes) {
			n.wake(k, notified, coalesce.Lost)
		}
		if !moves && k.read.tracked {
			n.wake(k, tracked, coalesce.Lost)
		}
		k.sub.end(moves)
		k.read.end(moves)
		n.plan(k)
	}
}
