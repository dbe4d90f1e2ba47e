// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/metrics"
)

const (
	// garbagePercent is how much garbage there may be beside the objects in use before it is collected. Nearly all of the
	// memory is caches, which last, so collecting twice as often as by default saves a quarter of it for little CPU time.
	garbagePercent = 50
	// leastGarbage is how many bytes of garbage a small heap may have, within mostPercent. Without it, collections took a
	// third of the operator's CPU time in a burst.
	leastGarbage = 32 << 20
	// mostPercent is garbagePercent while there are hardly any objects.
	mostPercent = 800
)

// garbage is how much of it there may be. The Go runtime only knows a percentage, so it is set again after each
// collection.
type garbage struct {
	// live returns how many bytes the last collection found in use.
	live func() uint64
	// setPercent is [debug.SetGCPercent].
	setPercent func(percent int) (before int)
	percent    int
}

// bound sets the percentage now and after each collection.
func (g *garbage) bound() {
	if percent := garbageFor(g.live()); percent != g.percent {
		g.setPercent(percent)
		g.percent = percent
	}
	// The next collection finds that nobody holds this. It is too large to share memory with others.
	runtime.AddCleanup(new([64]byte), (*garbage).bound, g)
}

// garbageFor returns the percentage of garbage to allow beside this many bytes in use.
func garbageFor(live uint64) (percent int) {
	return int(min(max(garbagePercent, leastGarbage*100/max(live, 1)), mostPercent))
}

// liveBytes returns how many bytes the last collection found in use.
func liveBytes() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
