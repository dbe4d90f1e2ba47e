// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/moment"
)

// status is the state of the subscription to the channel of a key.
type status int

const (
	absent        status = iota // not subscribed; wanted, if anybody wants notifications of the key
	subscribing                 // SUBSCRIBE was sent and has no reply yet
	present                     // confirmed
	unsubscribing               // UNSUBSCRIBE was sent and has no reply yet
	denied                      // rejected; not tried again before retryAt
)

// subscription is the first column of a key.
type subscription struct {
	status status
	// resumes means that the session has moved to another connection, where this is not confirmed yet.
	resumes bool
	// since is when the subscription last began or ended, or when the key was added.
	since     time.Time
	forbidden bool
	retryAt   time.Time
	// heardAt and shrunkAt are the times of the last growth event and the last shrink event.
	heardAt, shrunkAt time.Time
	// taken counts the notifications.
	taken *rate.Limiter
	flood flood
}

// subscriptions is the part of a [Node] about the first column.
type subscriptions struct {
	// toSubscribe and toUnsubscribe are the keys whose channels are to be subscribed to and unsubscribed from.
	toSubscribe, toUnsubscribe map[string]*key
	// retryAt is when the first denied key is tried again; zero if there is none.
	retryAt time.Time
}

func newSubscriptions() subscriptions {
	return subscriptions{toSubscribe: map[string]*key{}, toUnsubscribe: map[string]*key{}}
}

// planSubscription decides what must be sent so that a channel is subscribed to while somebody needs its notifications.
func (n *Node) planSubscription(k *key) {
	delete(n.toSubscribe, k.name)
	delete(n.toUnsubscribe, k.name)
	switch needed := k.needed(); {
	case needed && k.sub.status == absent:
		n.toSubscribe[k.name] = k
		n.changed.Set()
	case !needed && k.sub.status == present:
		n.toUnsubscribe[k.name] = k
		n.changed.Set()
	}
}

// needed reports whether the channel of a key should be subscribed to.
func (k *key) needed() bool { return k.sub.flood != flooded && k.wanted(notified) }

// take returns the names of up to maxBatch of these keys, whose commands will be sent now.
func take(from map[string]*key, next status) (names []string) {
	for name, k := range from {
		if len(names) == maxBatch {
			break
		}
		delete(from, name)
		k.sub.status = next
		names = append(names, name)
	}
	return names
}

// subscribed records that the server confirmed SUBSCRIBE. A read after this finds everything that was pushed before.
func (n *Node) subscribed(name string) {
	k := n.keys[name]
	if k == nil {
		return
	}
	k.sub.status, k.sub.since, k.sub.forbidden, k.sub.resumes = present, time.Now(), false, false
	n.wake(k, notified, coalesce.Confirmed)
	n.plan(k)
}

// unsubscribed records that the server confirmed UNSUBSCRIBE.
func (n *Node) unsubscribed(name string) {
	if k := n.keys[name]; k != nil {
		k.sub.end(false)
		n.plan(k)
	}
}

// deny records that the server rejected SUBSCRIBE, and whether that was because of a permission.
func (n *Node) deny(names []string, forbidden bool) {
	retryAt := time.Now().Add(n.options.Timing.RefusedRetry)
	if forbidden {
		retryAt = time.Now().Add(n.options.Timing.ForbiddenRetry)
	}
	for _, name := range names {
		k := n.keys[name]
		if k.sub.resumes {
			n.wake(k, notified, coalesce.Lost)
		} else if k.sub.forbidden != forbidden {
			n.wake(k, notified, coalesce.Changed)
		}
		k.sub.status, k.sub.forbidden, k.sub.retryAt, k.sub.resumes = denied, forbidden, retryAt, false
		n.retryAt = moment.First(n.retryAt, retryAt)
		n.plan(k)
	}
}

// retry has the denied keys subscribed to again whose time has come.
func (n *Node) retry(now time.Time) {
	if n.retryAt.IsZero() || now.Before(n.retryAt) {
		return
	}
	n.retryAt = time.Time{}
	for _, k := range n.keys {
		switch {
		case k.sub.status != denied:
		case now.Before(k.sub.retryAt):
			n.retryAt = moment.First(n.retryAt, k.sub.retryAt)
		default:
			k.sub.status = absent
			n.plan(k)
		}
	}
}

// end records that the channel is not subscribed to any longer, and whether the session goes on.
func (s *subscription) end(moves bool) {
	s.resumes = moves && (s.resumes || s.status == present)
	if s.here() {
		s.since = time.Now()
	}
	if s.status != denied {
		s.status = absent
	}
}

// here reports whether messages can arrive: from the confirmation of SUBSCRIBE to that of UNSUBSCRIBE.
func (s *subscription) here() bool { return s.status == present || s.status == unsubscribing }

func (s *subscription) state() verify.Subscription {
	return verify.Subscription{
		Present: s.here(), Since: s.since, Forbidden: s.forbidden, HeardAt: s.heardAt, ShrunkAt: s.shrunkAt, Flooded: s.flood != normal,
	}
}

// event handles a notification. Those of other channels count as messages that nobody asked for.
func (n *Node) event(channel, event string) error {
	n.received()
	name, ours := strings.CutPrefix(channel, n.prefix)
	k := n.keys[name]
	switch {
	case !ours || k == nil:
		return n.unsolicited(nil, 1)
	case !k.sub.here() || !k.needed():
		return n.unsolicited(k, 1)
	}
	now, means := time.Now(), meaningOf(event)
	switch means.cause {
	case coalesce.Growth:
		k.sub.heardAt = now
	case coalesce.Shrink:
		k.sub.shrunkAt = now
	}
	if n.charge(k, now) {
		n.suspend(k, now)
	}
	if means.cause != coalesce.None {
		n.wake(k, notified, means.cause)
	}
	if means.class != 0 && n.evidence.Heard(means.class) { // It may be the proof that others wait for.
		n.wakeAllLocked()
	}
	return nil
}
