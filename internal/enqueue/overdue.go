// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// overdueInterval is how often overdue ScaledJobs are looked for.
	overdueInterval = time.Second
	// overdueAtOnce is how many go ahead of all others then. Where there are always more, the machine is too small, and growth must not
	// have to wait for all of them.
	overdueAtOnce = 100
)

// Deadlines are by when ScaledJobs are to have their next pass. The work queue always serves the highest priority first, so without them a
// storm on some queues would keep the resync of the others waiting for as long as it lasts. The zero value is ready, and safe for concurrent
// use.
type Deadlines struct {
	mu sync.Mutex
	by map[types.NamespacedName]time.Time
}

// Expect sets by when the next pass over a ScaledJob is to come.
func (d *Deadlines) Expect(key types.NamespacedName, by time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[types.NamespacedName]time.Time{}
	}
	d.by[key] = by
}

// Forget drops a ScaledJob that is gone.
func (d *Deadlines) Forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, key)
}

// Promote moves overdue ScaledJobs ahead of all others, until ctx ends.
func (d *Deadlines) Promote(ctx context.Context, wakes Wakes) {
	ticker := time.NewTicker(overdueInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			late := d.overdue(now)
			for _, key := range late[:min(len(late), overdueAtOnce)] {
				wakes.send(ctx, wake{key: key, priority: PriorityOverdue})
			}
		}
	}
}

// overdue are the ScaledJobs whose next pass should have come by now, the longest overdue first.
func (d *Deadlines) overdue(now time.Time) []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	late := maps.Clone(d.by)
	maps.DeleteFunc(late, func(_ types.NamespacedName, by time.Time) bool { return !now.After(by) })
	return slices.SortedFunc(maps.Keys(late), func(a, b types.NamespacedName) int { return late[a].Compare(late[b]) })
}
