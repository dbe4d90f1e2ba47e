// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"
)

const (
	// overdueInterval is how often overdue ScaledJobs are looked for.
	overdueInterval = time.Second
	// overdueAtOnce is how many go ahead of all others then. Where there are always more, the machine is too small, and growth must not
	// have to wait for all of them.
	overdueAtOnce = 100
)

// promoteOverdue moves ScaledJobs that were not reconciled for one and a half polling intervals ahead of all others, until ctx ends. The
// work queue always serves the highest priority first, so without this a storm on some queues would keep the resync of the others waiting
// for as long as it lasts.
func (r *Reconciler) promoteOverdue(ctx context.Context) error {
	ticker := time.NewTicker(overdueInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			late := r.memories.overdue(now)
			for _, key := range late[:min(len(late), overdueAtOnce)] {
				r.Wakes.send(ctx, wake{key: key, priority: priorityOverdue})
			}
		}
	}
}
