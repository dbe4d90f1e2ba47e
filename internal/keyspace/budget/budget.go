// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget bounds how many events are taken: of each key, of each namespace, and of each server those that nobody
// asked for.
package budget

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The most events that are taken each second, and at once: of one key, so that a saturated queue costs little; of all
// keys of a namespace on all its servers together, where an event counts once for each id that it may wake; and of one
// server, messages that nobody asked for. A server that behaves sends few of these, about keys that were just left.
const (
	KeyRate          = 1_000
	KeyBurst         = 5_000
	NamespaceRate    = 5_000
	NamespaceBurst   = 20_000
	UnsolicitedRate  = 100
	UnsolicitedBurst = 20_000
)

// NewKey returns how many events of one key are taken.
func NewKey() *rate.Limiter { return rate.NewLimiter(KeyRate, KeyBurst) }

// NewUnsolicited returns how many messages of one server are taken that nobody asked for.
func NewUnsolicited() *rate.Limiter { return rate.NewLimiter(UnsolicitedRate, UnsolicitedBurst) }

// Namespaces has how many events each namespace may take. The zero value is ready. It is safe for concurrent use.
type Namespaces struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	// sweepAt is the number of limiters at which the full ones are removed: they are like new ones.
	sweepAt int
}

// Charge takes an event of a namespace. It reports whether the namespace has not taken too many. The events that are
// too many count as well, up to another burst, so that a flood has to end before the namespace may take more.
func (n *Namespaces) Charge(namespace string, now time.Time) bool {
	of := n.of(namespace, now)
	if of.AllowN(now, 1) {
		return true
	}
	if of.TokensAt(now) > -NamespaceBurst {
		of.ReserveN(now, 1)
	}
	return false
}

// of returns the limiter of a namespace.
func (n *Namespaces) of(namespace string, now time.Time) *rate.Limiter {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, ok := n.limiters[namespace]; ok {
		return found
	}
	n.sweep(now)
	fresh := rate.NewLimiter(NamespaceRate, NamespaceBurst)
	n.limiters[namespace] = fresh
	return fresh
}

// sweep removes the full limiters if there are many.
func (n *Namespaces) sweep(now time.Time) {
	if n.limiters == nil {
		n.limiters = map[string]*rate.Limiter{}
	}
	if len(n.limiters) < n.sweepAt {
		return
	}
	for namespace, limiter := range n.limiters {
		if limiter.TokensAt(now) >= NamespaceBurst {
			delete(n.limiters, namespace)
		}
	}
	n.sweepAt = 2*len(n.limiters) + 1
}
