// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

// KeyRate and KeyBurst are how many notifications of one key are taken a second and at once, so that a saturated queue
// costs little.
const KeyRate, KeyBurst = 1_000, 5_000

// chargeEach is how many messages that nobody asked for are charged at once.
const chargeEach = 64

var errFlooded = errors.New("the server sends too many messages that nobody asked for")

// flow is what limits the notifications of one key.
type flow struct {
	taken coalesce.Bucket
	// crowded means that there were too many, so that the channel is not subscribed to until resumeAt. calmAt is when
	// there will have been few for as long again.
	crowded          bool
	resumeAt, calmAt time.Time
}

// crowd is the part of a [Node] about too many messages.
type crowd struct {
	// namespaces has how many watchers each namespace has.
	namespaces map[string]int
	// uncharged is how many messages that nobody asked for are not charged yet.
	uncharged int
}

func newCrowd() crowd { return crowd{namespaces: map[string]int{}} }

// join counts a watcher of a namespace.
func (n *Node) join(namespace string, more int) {
	if n.namespaces[namespace] += more; n.namespaces[namespace] == 0 {
		delete(n.namespaces, namespace)
	}
}

// charge charges one message about a key to the namespaces that watch it. It reports whether there are too many: of the
// key, or of all of these namespaces.
func (n *Node) charge(k *key, now time.Time) (tooMany bool) {
	tooMany = len(k.watchers) > 0
	for id := range k.watchers {
		tooMany = n.options.Budgets.Spend(id.Namespace, 1, now) < 0 && tooMany
	}
	return k.sub.taken.Spend(1, coalesce.Allowance{Rate: KeyRate, Burst: KeyBurst}, now) < 0 || tooMany
}

// pause ends the subscription to a key for a while. Those who watch it must watch it in another way.
func (n *Node) pause(k *key, now time.Time) {
	calm := n.options.Timing.Calm
	k.sub.resumeAt, k.sub.calmAt = now.Add(calm), now.Add(2*calm)
	if !k.sub.crowded {
		k.sub.crowded = true
		n.remind(k.sub.resumeAt)
		n.mark(k, notified, coalesce.Changed)
		n.settle(k)
	}
}

// calm ends the pause of a key if it is over.
func (n *Node) calm(k *key, now time.Time) {
	switch {
	case !k.sub.crowded:
	case now.Before(k.sub.resumeAt):
		n.remind(k.sub.resumeAt)
	default:
		k.sub.crowded = false
	}
}

// unasked takes messages that nobody asked for, which all namespaces pay for that use the server. The error means that
// none of them can take more. Then the connection ends, and no channel is subscribed to for a while.
func (n *Node) unasked(count int) error {
	if n.uncharged += count; n.uncharged < chargeEach {
		return nil
	}
	now, charge := time.Now(), n.uncharged
	n.uncharged = 0
	if !n.options.Budgets.Exhausted(slices.Collect(maps.Keys(n.namespaces)), charge, now) {
		return nil
	}
	for _, k := range n.keys {
		n.pause(k, now)
	}
	return errFlooded
}
