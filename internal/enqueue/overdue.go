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
	// overdueInterval is the interval of the search for overdue ScaledJobs.
	overdueInterval = time.Second
	// overdueAtOnce is the maximum number of ScaledJobs that a search moves ahead. If more are overdue all the time,
	// the operator has too few resources; growing queues must not wait for all of them.
	overdueAtOnce = 100
)

// Deadlines tracks when each ScaledJob has to be reconciled next. The work queue always serves the highest priority
// first. Without deadlines, a burst of notifications for some queues would delay the resync of the other ScaledJobs for
// as long as it lasts. The zero value is ready for use. Deadlines is safe for concurrent use.
type Deadlines struct {
	mu sync.Mutex
	by map[types.NamespacedName]time.Time
}

// Expect sets the deadline for the next reconcile of a ScaledJob.
func (d *Deadlines) Expect(key types.NamespacedName, by time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[types.NamespacedName]time.Time{}
	}
	d.by[key] = by
}

// Forget removes a deleted ScaledJob.
func (d *Deadlines) Forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, key)
}

// Promote gives overdue ScaledJobs the highest priority, until ctx ends.
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

// overdue returns the ScaledJobs whose deadline has passed, the longest overdue first.
func (d *Deadlines) overdue(now time.Time) []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	late := maps.Clone(d.by)
	maps.DeleteFunc(late, func(_ types.NamespacedName, by time.Time) bool { return !now.After(by) })
	return slices.SortedFunc(maps.Keys(late), func(a, b types.NamespacedName) int { return late[a].Compare(late[b]) })
}
