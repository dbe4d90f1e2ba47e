// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
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

// channelSet has the channels of one server, who watches them, and what must be sent so that these channels are
// subscribed to. It is safe for concurrent use.
type channelSet struct {
	mark func(id ID, cause coalesce.Cause)

	mu       sync.Mutex
	channels map[string]*channel
	// wanted are the channels to subscribe to, and unwanted those to unsubscribe from.
	wanted, unwanted map[string]struct{}
	denied           map[string]struct{}
	// retryAt is when the denied channels become wanted again.
	retryAt time.Time
	// changed is set while there may be something to send.
	changed coalesce.Signal
}

// channel is a channel that is watched, or whose UNSUBSCRIBE is not confirmed yet.
type channel struct {
	ids    map[ID]struct{}
	status status
	// since is when the subscription last began or ended, or when the channel was added.
	since     time.Time
	forbidden bool
	// heardAt and shrunkAt are the times of the last growth event and the last shrink event.
	heardAt, shrunkAt time.Time
}

// newChannelSet returns an empty set. It calls mark for all ids that watch a channel when its subscription begins or
// ends, and in [channelSet.event] and [channelSet.wakeAll]. mark is called with the lock held: it must not block and
// must not use the set.
func newChannelSet(mark func(id ID, cause coalesce.Cause)) *channelSet {
	return &channelSet{
		mark:     mark,
		channels: map[string]*channel{},
		wanted:   map[string]struct{}{},
		unwanted: map[string]struct{}{},
		denied:   map[string]struct{}{},
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
		c = &channel{ids: map[ID]struct{}{}, since: time.Now()}
		x.channels[name] = c
		x.wanted[name] = struct{}{}
		x.changed.Set()
	}
	c.ids[id] = struct{}{}
	delete(x.unwanted, name)
	return c.status == present
}

// remove ends the watching that [channelSet.add] began.
func (x *channelSet) remove(name string, id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	delete(c.ids, id)
	if len(c.ids) > 0 {
		return
	}
	switch c.status {
	case absent, denied:
		x.drop(name)
	case present:
		x.unwanted[name] = struct{}{}
		x.changed.Set()
	case subscribing, unsubscribing:
		// The reply decides what happens next.
	}
}

func (x *channelSet) drop(name string) {
	delete(x.channels, name)
	delete(x.wanted, name)
	delete(x.unwanted, name)
	delete(x.denied, name)
}

// event marks all ids that watch the channel, and records when a growth or shrink event came. Events of other channels
// are ignored.
func (x *channelSet) event(name string, cause coalesce.Cause) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	switch cause {
	case coalesce.Growth:
		c.heardAt = time.Now()
	case coalesce.Shrink:
		c.shrunkAt = time.Now()
	}
	x.markAll(c, cause)
}

func (x *channelSet) markAll(c *channel, cause coalesce.Cause) {
	for id := range c.ids {
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
	return verify.Subscription{Present: c.present(), Since: c.since, Forbidden: c.forbidden, HeardAt: c.heardAt, ShrunkAt: c.shrunkAt}
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
	clear(x.unwanted)
	for name, c := range x.channels {
		if c.status == present {
			x.markAll(c, coalesce.Lost)
		}
		switch {
		case len(c.ids) == 0:
			x.drop(name)
		case c.status != denied:
			c.end()
			x.wanted[name] = struct{}{}
		}
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
	x.markAll(c, coalesce.Confirmed)
	if len(c.ids) == 0 {
		x.unwanted[name] = struct{}{}
	}
}

// unsubscribed records that the server confirmed UNSUBSCRIBE.
func (x *channelSet) unsubscribed(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return
	}
	if len(c.ids) == 0 {
		x.drop(name)
		return
	}
	c.end()
	x.wanted[name] = struct{}{}
}

// refused records that the server rejected SUBSCRIBE, whether that was because of a permission, and when to retry.
func (x *channelSet) refused(names []string, forbidden bool, retryAt time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.denied) == 0 || retryAt.Before(x.retryAt) {
		x.retryAt = retryAt
	}
	for _, name := range names {
		c := x.channels[name]
		if len(c.ids) == 0 {
			x.drop(name)
			continue
		}
		c.status, c.forbidden = denied, forbidden
		x.denied[name] = struct{}{}
	}
}

// retry makes the denied channels wanted again if it is time. Otherwise it returns that time; zero means never.
func (x *channelSet) retry(now time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.denied) == 0 {
		return time.Time{}
	}
	if now.Before(x.retryAt) {
		return x.retryAt
	}
	for name := range x.denied {
		x.channels[name].status = absent
		x.wanted[name] = struct{}{}
	}
	clear(x.denied)
	return time.Time{}
}
