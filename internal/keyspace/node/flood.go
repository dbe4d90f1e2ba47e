// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

var errFlooded = errors.New("the server sends too many messages that nobody asked for")

// flood says whether a key has had too many notifications.
type flood int

const (
	normal    flood = iota
	probation       // subscribed to again. Its notifications must be few for a while before they count as announced again.
	flooded         // not subscribed to
)

// floods is the part of a [Node] about too many messages.
type floods struct {
	// unsolicitedQuota is for the messages that nobody asked for.
	unsolicitedQuota *rate.Limiter
	// resumeAt is when the flooded keys are subscribed to again; zero if there are none.
	resumeAt time.Time
}

// charge charges a notification of a key to the namespaces that watch it. It reports whether the key or one of these
// namespaces has too many.
func (n *Node) charge(k *key, now time.Time) (tooMany bool) {
	tooMany = !k.sub.taken.AllowN(now, 1)
	for id := range k.watchers {
		tooMany = !n.options.Budgets.Charge(id.Namespace, now) || tooMany
	}
	return tooMany
}

// suspend ends the subscription to a key for everybody, for a while. Those who watch it must watch it in another way.
func (n *Node) suspend(k *key, now time.Time) {
	if k.sub.flood == flooded {
		return
	}
	k.sub.flood = flooded
	if n.resumeAt.IsZero() {
		n.resumeAt = now.Add(n.options.Timing.Cooldown)
	}
	n.wake(k, notified, coalesce.Changed)
	n.plan(k)
}

// resume has the flooded keys subscribed to again when their time has come. Those that were the last time are normal.
func (n *Node) resume(now time.Time) {
	if n.resumeAt.IsZero() || now.Before(n.resumeAt) {
		return
	}
	n.resumeAt = time.Time{}
	for _, k := range n.keys {
		switch k.sub.flood {
		case flooded:
			k.sub.flood = probation
			n.resumeAt = now.Add(n.options.Timing.Cooldown)
			n.plan(k)
		case probation:
			k.sub.flood = normal
			n.wake(k, notified, coalesce.Changed)
		case normal:
		}
	}
}

// unsolicited takes messages that nobody asked for, about a key that is not subscribed to any longer, or about nil. The
// error means that there are too many, and ends the connection. A server goes on to send what it has published before
// UNSUBSCRIBE, and may send nothing of any other channel. If it does, no channel is subscribed to for a while.
func (n *Node) unsolicited(about *key, count int) error {
	now := time.Now()
	if n.unsolicitedQuota.AllowN(now, count) {
		return nil
	}
	if about == nil || !about.sub.here() {
		for _, k := range n.keys {
			n.suspend(k, now)
		}
	}
	return errFlooded
}
