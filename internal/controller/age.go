// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/queue"
)

// oldestInterval is the minimum time between two questions to Redis for the oldest messages of a ScaledJob.
const oldestInterval = 10 * time.Second

// observeOldest asks Redis since when the oldest message of each queue is outstanding. That is only for the status and the
// metrics, so it comes after the creates, and not each time.
func (r *Reconciler) observeOldest(ctx context.Context, t *target, seen observation, now time.Time) {
	counts, knows := seen.queues.counts, slices.ContainsFunc(t.spec.Source.Queues, queue.Queue.HasOldest)
	switch {
	case seen.queues.err != nil || !knows:
	case counts.Outstanding() == 0:
		t.mem.oldest = make([]time.Time, len(counts))
	case len(t.mem.oldest) != len(counts) || now.Sub(t.mem.oldestAsked) >= oldestInterval:
		t.mem.oldest, t.mem.oldestAsked = r.Queues.Oldest(ctx, t.spec.Source, counts), now
	}
}

// setAge sets the times of the i-th queue in its status. before are the queues in the previous status.
func (m *memory) setAge(status *scaledjobv1.QueueStatus, before []scaledjobv1.QueueStatus, i int, now time.Time) {
	if *status.Depth == 0 {
		return
	}
	since := metav1.NewTime(now).Rfc3339Copy()
	status.NonEmptySince = &since
	if i < len(before) && before[i].NonEmptySince != nil && sameQueue(before[i], *status) {
		status.NonEmptySince = before[i].NonEmptySince
	}
	if i < len(m.oldest) && !m.oldest[i].IsZero() {
		oldest := metav1.NewTime(m.oldest[i]).Rfc3339Copy()
		status.OldestMessageTime = &oldest
	}
}

func sameQueue(a, b scaledjobv1.QueueStatus) bool {
	return a.Name == b.Name && a.ConsumerGroup == b.ConsumerGroup && a.Window == b.Window
}
