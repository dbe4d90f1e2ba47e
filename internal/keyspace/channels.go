// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"maps"
	"slices"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// status is the state of the subscription to a channel in the current session.
type status int

const (
	absent        status = iota // not subscribed; wanted, if anybody watches the channel
	subscribing                 // SUBSCRIBE was taken for sending and has no reply yet
	present                     // confirmed
	unsubscribing               // UNSUBSCRIBE was taken for sending and has no reply yet
	denied                      // rejected; not retried before retryAt
)

// The most notifications that are taken: of one key, so that a saturated queue costs little, and of all keys of a
// namespace on all its servers together. A notification counts once for the key, and once for each id that it may wake.
const (
	keyRate, keyBurst             = 1_000, 5_000
	namespaceRate, namespaceBurst = 5_000, 20_000
)

// newBudgets returns what each namespace may take.
func newBudgets() *coalesce.Budgets {
	return coalesce.NewBudgets(coalesce.Allowance{Rate: namespaceRate, Burst: namespaceBurst})
}

// channelSet has the channels of one server, who watches them, and what must be sent so that these channels are
// subscribed to. It is safe for concurrent use.
type channelSet struct {
	mark    func(id ID, cause coalesce.Cause)
	budgets *coalesce.Budgets
	// restFor is how long a key that had too many events is not subscribed to. After that, it must have few of them for
	// the same time until notifications count as verified again.
	restFor time.Duration

	mu       sync.Mutex
	channels map[string]*channel
	// version grows with each change that may change a verdict.
	version uint64
	// namespaces has how many shares each namespace has in the channels.
	namespaces map[string]int
	// wanted are the channels to subscribe to, and unwanted those to unsubscribe from.
	wanted, unwanted map[string]struct{}
	// later are the channels that are denied, or that rest. The first of them is due again at retryAt.
	later   map[string]struct{}
	retryAt time.Time
	// changed is set while there may be something to send.
	changed coalesce.Signal
}

// channel is a channel that is watched, or whose UNSUBSCRIBE is not confirmed yet.
type channel struct {
	shares []*share // one for each namespace
	last   string   // the namespace whose share was removed last
	status status
	// since is when the subscription last began or ended, or when the channel was added.
	since     time.Time
	forbidden bool
	// retryAt is when a denied channel is tried again.
	retryAt time.Time
	// heardAt and shrunkAt are the times of the last growth event and the last shrink event.
	heardAt, shrunkAt time.Time
	// taken counts the events.
	taken coalesce.Bucket
}

// share has the ids of one namespace that watch a channel.
type share struct {
	namespace string
	ids       []ID // usually one
	// resting means that the ids are not marked, because the events were too many. floodedAt is when that began last.
	resting   bool
	floodedAt time.Time
}

// newChannelSet returns an empty set. It calls mark for all ids that watch a channel when its subscription begins or
// ends, and in [channelSet.event] and [channelSet.wakeAll]. mark is called with the lock held: it must not block and
// must not use the set.
func newChannelSet(mark func(id ID, cause coalesce.Cause), budgets *coalesce.Budgets) *channelSet {
	return &channelSet{
		mark:       mark,
		budgets:    budgets,
		restFor:    defaultTiming().restFor,
		channels:   map[string]*channel{},
		namespaces: map[string]int{},
		wanted:     map[string]struct{}{},
		unwanted:   map[string]struct{}{},
		later:      map[string]struct{}{},
		changed:    coalesce.NewSignal(),
	}
}

// add makes id watch the channel. It returns true if the channel is subscribed to already, so that no confirmation
// follows.
func (x *channelSet) add(name string, id ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		c = &channel{since: time.Now()}
		x.channels[name] = c
	}
	of := c.share(id.Namespace)
	if of == nil {
		of = &share{namespace: id.Namespace}
		c.shares = append(c.shares, of)
		x.namespaces[id.Namespace]++
	}
	if !slices.Contains(of.ids, id) {
		of.ids = append(of.ids, id)
	}
	x.settle(name, c)
	return c.status == present && !of.resting
}

// share returns the share of a namespace, or nil.
func (c *channel) share(namespace string) *share {
	for _, each := range c.shares {
		if each.namespace == namespace {
			return each
		}
	}
	return nil
}

// remove ends the watching that [channelSet.add] began.
func (x *channelSet) remove(name string, id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	of := c.share(id.Namespace)
	if of == nil {
		return
	}
	of.ids = slices.DeleteFunc(of.ids, func(other ID) bool { return other == id })
	if len(of.ids) == 0 {
		c.shares = slices.DeleteFunc(c.shares, func(each *share) bool { return each == of })
		c.last = id.Namespace
		x.namespaces[id.Namespace]--
		if x.namespaces[id.Namespace] == 0 {
			delete(x.namespaces, id.Namespace)
		}
	}
	x.settle(name, c)
}

// settle decides what must be sent so that a channel is subscribed to while somebody needs its events. While a reply is
// outstanding, the reply decides. It forgets a channel that nobody watches any longer.
func (x *channelSet) settle(name string, c *channel) {
	delete(x.wanted, name)
	delete(x.unwanted, name)
	switch {
	case len(c.shares) == 0 && (c.status == absent || c.status == denied):
		delete(x.channels, name)
		delete(x.later, name)
	case c.status == absent && c.needed():
		x.wanted[name] = struct{}{}
		x.changed.Set()
	case c.status == present && !c.needed():
		x.unwanted[name] = struct{}{}
		x.changed.Set()
	}
}

// needed reports whether somebody who watches the channel does not rest.
func (c *channel) needed() bool {
	return slices.ContainsFunc(c.shares, func(each *share) bool { return !each.resting })
}

// event marks all ids that watch the channel, and records when a growth or shrink event came. If the events are too
// many, those who watch the channel begin to rest: their keys must be watched in another way. flooded means that the
// server sends events that nobody asked for, and that no namespace that uses it can take more of them.
func (x *channelSet) event(name string, cause coalesce.Cause) (rests, flooded bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	c, ok := x.channels[name]
	if !ok || !c.needed() {
		return false, x.unasked(c, now)
	}
	switch cause {
	case coalesce.Growth:
		c.heardAt = now
	case coalesce.Shrink:
		c.shrunkAt = now
	}
	crowded := c.taken.Spend(1, coalesce.Allowance{Rate: keyRate, Burst: keyBurst}, now) < 0
	for _, each := range c.shares {
		if each.resting {
			continue
		}
		if left := x.budgets.Spend(each.namespace, len(each.ids), now); crowded || left < 0 {
			x.rest(name, each, now)
			rests = true
		}
		if cause != coalesce.None {
			x.markShare(each, cause)
		}
	}
	if rests {
		x.settle(name, c)
	}
	return rests, false
}

// unasked takes an event that nobody asked for. It reports whether nobody who uses the server can take more of them.
func (x *channelSet) unasked(c *channel, now time.Time) (flooded bool) {
	if !x.budgets.Exhausted(x.payers(c), 1, now) {
		return false
	}
	return x.budgets.Exhausted(slices.Collect(maps.Keys(x.namespaces)), 0, now)
}

// payers returns the namespaces that pay for an event that nobody asked for: those that watch its channel, or did so
// last, because the server still sends what it has published before UNSUBSCRIBE. If there are none, all who use the
// server pay.
func (x *channelSet) payers(c *channel) []string {
	switch {
	case c == nil:
		return slices.Collect(maps.Keys(x.namespaces))
	case len(c.shares) == 0:
		return []string{c.last}
	}
	namespaces := make([]string, len(c.shares))
	for i, each := range c.shares {
		namespaces[i] = each.namespace
	}
	return namespaces
}

// rest begins the rest of a share.
func (x *channelSet) rest(name string, of *share, now time.Time) {
	of.resting, of.floodedAt = true, now
	x.version++
	x.remind(name, now.Add(x.restFor))
}

// restAll begins the rest of all shares whose namespace has taken too much.
func (x *channelSet) restAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	spent := map[string]bool{}
	for namespace := range x.namespaces {
		spent[namespace] = x.budgets.Spend(namespace, 0, now) < 0
	}
	for name, c := range x.channels {
		for _, each := range c.shares {
			if spent[each.namespace] {
				x.rest(name, each, now)
			}
		}
		x.settle(name, c)
	}
}

// remind makes [channelSet.retry] look at a channel at a time.
func (x *channelSet) remind(name string, at time.Time) {
	if len(x.later) == 0 || at.Before(x.retryAt) {
		x.retryAt = at
	}
	x.later[name] = struct{}{}
}

// markAll marks all ids that watch a channel and do not rest.
func (x *channelSet) markAll(c *channel, cause coalesce.Cause) {
	for _, each := range c.shares {
		if !each.resting {
			x.markShare(each, cause)
		}
	}
}

func (x *channelSet) markShare(of *share, cause coalesce.Cause) {
	for _, id := range of.ids {
		x.mark(id, cause)
	}
}

// state returns the state of the subscription to the channel for a namespace.
func (x *channelSet) state(name, namespace string) verify.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return verify.Subscription{}
	}
	known := verify.Subscription{
		Present: c.present(), Since: c.since, Forbidden: c.forbidden, HeardAt: c.heardAt, ShrunkAt: c.shrunkAt,
	}
	if of := c.share(namespace); of != nil && !of.floodedAt.IsZero() {
		known.CalmAt = of.floodedAt.Add(2 * x.restFor)
	}
	return known
}

// versionNow returns a number that grows when verdicts may change.
func (x *channelSet) versionNow() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.version
}

// present reports whether messages can arrive: from the confirmation of SUBSCRIBE to that of UNSUBSCRIBE.
func (c *channel) present() bool { return c.status == present || c.status == unsubscribing }

// end records that the channel is not subscribed to any longer.
func (c *channel) end() {
	if c.present() {
		c.since = time.Now()
	}
	c.status = absent
}

// reset records the end of a session: nothing is subscribed to. It marks the ids that watch a channel which was
// subscribed to.
func (x *channelSet) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version++
	for name, c := range x.channels {
		if c.status == present {
			x.markAll(c, coalesce.Lost)
		}
		if c.status != denied {
			c.end()
		}
		x.settle(name, c)
	}
	x.changed.Set()
}

// wakeAll marks all ids that watch a channel which is subscribed to.
func (x *channelSet) wakeAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.channels {
		if c.present() {
			x.markAll(c, coalesce.Changed)
		}
	}
}

// takeWanted returns up to limit channels to subscribe to.
func (x *channelSet) takeWanted(limit int) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.take(x.wanted, limit, subscribing)
}

// takeUnwanted returns up to limit channels to unsubscribe from.
func (x *channelSet) takeUnwanted(limit int) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.take(x.unwanted, limit, unsubscribing)
}

func (x *channelSet) take(from map[string]struct{}, limit int, next status) []string {
	var taken []string
	for name := range from {
		if len(taken) == limit {
			break
		}
		delete(from, name)
		x.channels[name].status = next
		taken = append(taken, name)
	}
	return taken
}

// subscribed records that the server confirmed SUBSCRIBE, and marks all ids that watch the channel.
func (x *channelSet) subscribed(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	c.status, c.since, c.forbidden = present, time.Now(), false
	x.version++
	x.markAll(c, coalesce.Confirmed)
	x.settle(name, c)
}

// unsubscribed records that the server confirmed UNSUBSCRIBE.
func (x *channelSet) unsubscribed(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	c.end()
	x.version++
	x.settle(name, c)
}

// refused records that the server rejected SUBSCRIBE, whether that was because of a permission, and when to retry.
func (x *channelSet) refused(names []string, forbidden bool, retryAt time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version++
	for _, name := range names {
		c := x.channels[name]
		c.status, c.forbidden, c.retryAt = denied, forbidden, retryAt
		x.remind(name, retryAt)
		x.settle(name, c)
	}
}

// retry ends the rests that are over, and makes the denied channels wanted again whose time has come. It returns when
// the next one's time comes; zero means never.
func (x *channelSet) retry(now time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.later) == 0 {
		return time.Time{}
	}
	if now.Before(x.retryAt) {
		return x.retryAt
	}
	due := x.later
	x.later, x.retryAt = map[string]struct{}{}, time.Time{}
	for name := range due {
		c := x.channels[name]
		x.resume(name, c, now)
		x.settle(name, c)
	}
	return x.retryAt
}

// resume ends the refusal and the rests of a channel that are over. A subscription that exists for others already
// begins with a wake, like any other.
func (x *channelSet) resume(name string, c *channel, now time.Time) {
	switch {
	case c.status != denied:
	case now.Before(c.retryAt):
		x.remind(name, c.retryAt)
	default:
		c.status = absent
	}
	for _, each := range c.shares {
		switch over := each.floodedAt.Add(x.restFor); {
		case !each.resting:
		case now.Before(over):
			x.remind(name, over)
		default:
			each.resting = false
			if c.status == present {
				x.markShare(each, coalesce.Confirmed)
			}
		}
	}
}

// needed reports whether there is a channel that somebody needs, or none at all.
func (x *channelSet) needed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.channels {
		if c.needed() {
			return true
		}
	}
	return len(x.channels) == 0
}
