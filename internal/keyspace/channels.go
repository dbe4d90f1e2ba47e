// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// status says how far the subscription to a channel has come on the present session.
type status int

const (
	absent        status = iota // not subscribed; wanted, if anybody watches the channel
	subscribing                 // SUBSCRIBE was handed out and is not answered
	present                     // confirmed
	unsubscribing               // UNSUBSCRIBE was handed out and is not answered
	denied                      // refused; not to be tried again before the set's retryAt
)

// channelSet says who watches which channel of one server, and what has to be sent to it so that
// those channels are subscribed to. It is safe for concurrent use.
type channelSet struct {
	mark func(id ID, cause coalesce.Cause)

	mu       sync.Mutex
	channels map[string]*channel
	// wanted are the unsubscribed channels, unwanted the subscribed ones nobody watches.
	wanted, unwanted map[string]struct{}
	denied           map[string]struct{}
	// retryAt is when the denied channels are wanted again.
	retryAt time.Time
	// changed is set while there may be something to send.
	changed coalesce.Signal
}

// channel is one channel that is watched, or not yet unsubscribed.
type channel struct {
	ids    map[ID]struct{}
	status status
	// since is when the channel was subscribed to, or when that ended, or when it was added.
	since     time.Time
	forbidden bool
	// heardAt and shrunkAt are when growth and shrinking were last heard of.
	heardAt, shrunkAt time.Time
}

// newChannelSet returns a set of no channels. Mark is called for all who watch a channel when its
// subscription begins or ends, and when [channelSet.Event] or [channelSet.Rouse] says so. It is called with
// the lock held: it must not block, nor use the set.
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

// add makes id watch the channel. It reports whether the channel is subscribed to, so
// that there will be no confirmation.
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

// remove ends what [channelSet.Add] began.
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
		// The answer decides.
	}
}

func (x *channelSet) drop(name string) {
	delete(x.channels, name)
	delete(x.wanted, name)
	delete(x.unwanted, name)
	delete(x.denied, name)
}

// event marks all who watch the channel, and notes when growth and shrinking were last heard of.
// A channel that nobody watches is of no interest: anyone may publish anything.
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

// state returns what is known of the subscription to the channel.
func (x *channelSet) state(name string) verify.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.channels[name]
	if !ok {
		return verify.Subscription{}
	}
	return verify.Subscription{Present: c.present(), Since: c.since, Forbidden: c.forbidden, HeardAt: c.heardAt, ShrunkAt: c.shrunkAt}
}

// present says that the channel is subscribed to until the server confirms that it is not.
func (c *channel) present() bool { return c.status == present || c.status == unsubscribing }

// end notes that the channel is not subscribed to any more.
func (c *channel) end() {
	if c.present() {
		c.since = time.Now()
	}
	c.status = absent
}

// reset notes the end of a session: nothing is subscribed to. It marks all who watch
// a channel that was.
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

// wakeAll marks all who watch a channel that is subscribed to.
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

// subscribed notes that the server confirmed SUBSCRIBE, and marks all who watch the channel.
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

// unsubscribed notes that the server confirmed UNSUBSCRIBE.
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

// refused notes that the server refused SUBSCRIBE, whether because the user may not, and
// when to try again.
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

// retry wants the denied channels again if it is time. Otherwise it returns when that
// will be; zero means never.
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
