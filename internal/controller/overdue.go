// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"
)

// overdueInterval is how often overdue ScaledJobs are looked for.
const overdueInterval = time.Second

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
			for _, key := range r.memories.overdue(now) {
				r.Wakes.send(ctx, wake{key: key, priority: priorityOverdue})
			}
		}
	}
}
