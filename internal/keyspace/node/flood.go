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

// crowding says whether a key has had too many notifications.
type crowding int

const (
	calm    crowding = iota
	trying           // subscribed to again. Its notifications must be few for a while before they count as announced again.
	crowded          // not subscribed to
)

// crowds is the part of a [Node] about too many messages.
type crowds struct {
	// strays are the messages that nobody asked for.
	strays *rate.Limiter
	// restedAt is when the crowded keys are subscribed to again; zero if there are none.
	restedAt time.Time
}

// charge charges a notification of a key to the namespaces that watch it. It reports whether the key or one of these
// namespaces has too many.
func (n *Node) charge(k *key, now time.Time) (tooMany bool) {
	tooMany = !k.sub.taken.AllowN(now, 1)
	for id := range k.watchers {
		tooMany = !n.options.Budgets.Spend(id.Namespace, now) || tooMany
	}
	return tooMany
}

// crowd ends the subscription to a key for everybody, for a while. Those who watch it must watch it in another way.
func (n *Node) crowd(k *key, now time.Time) {
	if k.sub.crowding == crowded {
		return
	}
	k.sub.crowding = crowded
	if n.restedAt.IsZero() {
		n.restedAt = now.Add(n.options.Timing.Rest)
	}
	n.mark(k, notified, coalesce.Changed)
	n.settle(k)
}

// rest has the crowded keys subscribed to again when their time has come. Those that were the last time are calm.
func (n *Node) rest(now time.Time) {
	if n.restedAt.IsZero() || now.Before(n.restedAt) {
		return
	}
	n.restedAt = time.Time{}
	for _, k := range n.keys {
		switch k.sub.crowding {
		case crowded:
			k.sub.crowding = trying
			n.restedAt = now.Add(n.options.Timing.Rest)
			n.settle(k)
		case trying:
			k.sub.crowding = calm
			n.mark(k, notified, coalesce.Changed)
		case calm:
		}
	}
}

// stray takes messages that nobody asked for, about a key that is not subscribed to any longer, or about nil. The error
// means that there are too many, and ends the connection. A server goes on to send what it has published before
// UNSUBSCRIBE, and may send nothing of any other channel. If it does, no channel is subscribed to for a while.
func (n *Node) stray(about *key, count int) error {
	now := time.Now()
	if n.strays.AllowN(now, count) {
		return nil
	}
	if about == nil || !about.sub.here() {
		for _, k := range n.keys {
			n.crowd(k, now)
		}
	}
	return errFlooded
}
