// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
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

// crowding says whether a channel has had too many events.
type crowding int

const (
	calm    crowding = iota
	trying           // subscribed to again. Its events must be few for a while before they count as announced again.
	crowded          // not subscribed to
)

// channelSet has the channels of one server, who watches them, and what must be sent so that these channels are
// subscribed to. It is safe for concurrent use.
type channelSet struct {
	mark    func(id ID, cause coalesce.Cause)
	budgets *budget.Namespaces
	// restFor is how long a channel that had too many events is not subscribed to at most. After that, it must have few of
	// them for so long until notifications count as verified again.
	restFor time.Duration

	mu       sync.Mutex
	channels map[string]*channel
	// strays counts the messages that nobody asked for. flooded means that they were too many in this session.
	strays  *rate.Limiter
	flooded bool
	// resting is true while a timer runs that ends the rest of the crowded channels.
	resting bool
	// wanted are the channels to subscribe to, and unwanted those to unsubscribe from.
	wanted, unwanted map[string]struct{}
	// refusals are the channels that are denied. The first of them is due again at retryAt.
	refusals map[string]struct{}
	retryAt  time.Time
	// changed is set while there may be something to send.
	changed coalesce.Signal
}

// channel is a channel that is watched, or whose UNSUBSCRIBE is not confirmed yet.
type channel struct {
	// ids are usually one. An id is there twice while it goes on with another type of the same key.
	ids    []ID
	status status
	// since is when the subscription last began or ended, or when the channel was added.
	since     time.Time
	forbidden bool
	// retryAt is when a denied channel is tried again.
	retryAt time.Time
	// heardAt and shrunkAt are the times of the last growth event and the last shrink event.
	heardAt, shrunkAt time.Time
	// taken counts the events.
	taken    *rate.Limiter
	crowding crowding
}

// newChannelSet returns an empty set. It calls mark for all ids that watch a channel when its subscription begins or
// ends, and in [channelSet.event] and [channelSet.wakeAll]. mark is called with the lock held: it must not block and
// must not use the set.
func newChannelSet(mark func(id ID, cause coalesce.Cause), budgets *budget.Namespaces) *channelSet {
	return &channelSet{
		mark:     mark,
		budgets:  budgets,
		restFor:  defaultTiming().restFor,
		channels: map[string]*channel{},
		strays:   budget.NewStrays(),
		wanted:   map[string]struct{}{},
		unwanted: map[string]struct{}{},
		refusals: map[string]struct{}{},
		changed:  coalesce.NewSignal(),
	}
}

// add makes id watch the channel. It returns true if the channel is subscribed to already, so that no confirmation
// follows.
func (x *channelSet) add(name string, id ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		c = &channel{since: time.Now(), taken: budget.NewKey()}
		x.channels[name] = c
	}
	c.ids = append(c.ids, id)
	x.settle(name, c)
	return c.status == present && c.needed()
}

// remove ends the watching that [channelSet.add] began.
func (x *channelSet) remove(name string, id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	if i := slices.Index(c.ids, id); i >= 0 {
		c.ids = slices.Delete(c.ids, i, i+1)
		x.settle(name, c)
	}
}

// settle decides what must be sent so that a channel is subscribed to while somebody needs its events. While a reply is
// outstanding, the reply decides. It forgets a channel that nobody watches any longer.
func (x *channelSet) settle(name string, c *channel) {
	delete(x.wanted, name)
	delete(x.unwanted, name)
	switch {
	case len(c.ids) == 0 && (c.status == absent || c.status == denied):
		delete(x.channels, name)
		delete(x.refusals, name)
	case c.status == absent && c.needed():
		x.wanted[name] = struct{}{}
		x.changed.Set()
	case c.status == present && !c.needed():
		x.unwanted[name] = struct{}{}
		x.changed.Set()
	}
}

// needed reports whether the channel should be subscribed to.
func (c *channel) needed() bool { return len(c.ids) > 0 && c.crowding != crowded }

// event marks all ids that watch the channel, and records when a growth or shrink event came. If the key, or a namespace
// that watches it, has too many events, the channel is unsubscribed from for everybody, and its key must be watched in
// another way. flooded means that the server sends too many messages that nobody asked for, so that the session must end.
func (x *channelSet) event(name string, cause coalesce.Cause) (flooded bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	c, ok := x.channels[name]
	if !ok || !c.needed() {
		return x.stray(c, now)
	}
	switch cause {
	case coalesce.Growth:
		c.heardAt = now
	case coalesce.Shrink:
		c.shrunkAt = now
	}
	tooMany := !c.taken.AllowN(now, 1)
	for _, id := range c.ids {
		tooMany = !x.budgets.Spend(id.Namespace, now) || tooMany
		if cause != coalesce.None {
			x.mark(id, cause)
		}
	}
	if tooMany {
		x.crowd(name, c)
	}
	return false
}

// stray takes a message that nobody asked for. A server goes on to send what it has published before UNSUBSCRIBE, and may
// send nothing of any other channel. If it does, and too much, all its channels are left when the session has ended.
func (x *channelSet) stray(of *channel, now time.Time) (flooded bool) {
	if x.strays.AllowN(now, 1) {
		return false
	}
	x.flooded = of == nil || !of.present()
	return true
}

// crowd has a channel unsubscribed from because of too many events.
func (x *channelSet) crowd(name string, c *channel) {
	if c.crowding == crowded {
		return
	}
	c.crowding = crowded
	x.markAll(c, coalesce.Changed)
	x.settle(name, c)
	x.rest()
}

// rest starts the timer that ends the rest of the crowded channels.
func (x *channelSet) rest() {
	if !x.resting {
		x.resting = true
		time.AfterFunc(x.restFor, x.resume)
	}
}

// resume has the crowded channels subscribed to again. Those that were subscribed to again the last time are calm.
func (x *channelSet) resume() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resting = false
	for name, c := range x.channels {
		switch c.crowding {
		case crowded:
			c.crowding = trying
			x.settle(name, c)
			x.rest()
		case trying:
			c.crowding = calm
			x.markAll(c, coalesce.Changed)
		}
	}
}

// markAll marks all ids that watch a channel.
func (x *channelSet) markAll(c *channel, cause coalesce.Cause) {
	for _, id := range c.ids {
		x.mark(id, cause)
	}
}

// state returns the state of the subscription to the channel.
func (x *channelSet) state(name string) verify.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return verify.Subscription{}
	}
	return verify.Subscription{
		Present: c.present(), Since: c.since, Forbidden: c.forbidden, HeardAt: c.heardAt, ShrunkAt: c.shrunkAt,
		Crowded: c.crowding != calm,
	}
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
	for name, c := range x.channels {
		if c.present() {
			x.markAll(c, coalesce.Lost)
		}
		if c.status != denied {
			c.end()
		}
		if x.flooded {
			x.crowd(name, c)
		}
		x.settle(name, c)
	}
	x.flooded = false
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
	x.markAll(c, coalesce.Confirmed)
	x.settle(name, c)
}

// unsubscribed records that the server confirmed UNSUBSCRIBE. Ids that watch the channel again wait for the next
// confirmation of SUBSCRIBE, which may not come.
func (x *channelSet) unsubscribed(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	c.end()
	if c.needed() {
		x.markAll(c, coalesce.Lost)
	}
	x.settle(name, c)
}

// refused records that the server rejected SUBSCRIBE, whether that was because of a permission, and when to retry.
func (x *channelSet) refused(names []string, forbidden bool, retryAt time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range names {
		c := x.channels[name]
		if c.forbidden != forbidden {
			x.markAll(c, coalesce.Changed)
		}
		c.status, c.forbidden, c.retryAt = denied, forbidden, retryAt
		x.refusals[name] = struct{}{}
		x.retryAt = verify.Earlier(x.retryAt, retryAt)
		x.settle(name, c)
	}
}

// retry makes the denied channels wanted again whose time has come. It returns when the next one's time comes; zero means
// never.
func (x *channelSet) retry(now time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.refusals) > 0 && now.Before(x.retryAt) {
		return x.retryAt
	}
	x.retryAt = time.Time{}
	for name := range x.refusals {
		c := x.channels[name]
		if now.Before(c.retryAt) {
			x.retryAt = verify.Earlier(x.retryAt, c.retryAt)
			continue
		}
		delete(x.refusals, name)
		c.status = absent
		x.settle(name, c)
	}
	return x.retryAt
}
