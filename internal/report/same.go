// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// SameStatus reports whether two statuses are the same. Each reconcile asks for it, and comparing by reflection takes
// longer than all the rest of a reconcile that finds nothing to do. ClaimedJobs and PendingEntries do not count: they
// change while all else stays, and no status is written because of them alone.
func SameStatus(a, b *scaledjobv1.ScaledJobStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration &&
		a.Queue == b.Queue && a.Mode == b.Mode && equalCounts(a, b) && a.LastScaleTime.Equal(b.LastScaleTime) &&
		a.CreationPausedUntil.Equal(b.CreationPausedUntil) &&
		slices.EqualFunc(a.Queues, b.Queues, equalQueues) && slices.EqualFunc(a.Conditions, b.Conditions, equalConditions)
}

func equalCounts(a, b *scaledjobv1.ScaledJobStatus) bool {
	return a.ActiveJobs == b.ActiveJobs && a.PendingJobs == b.PendingJobs && a.SuspendedJobs == b.SuspendedJobs &&
		a.SucceededJobs == b.SucceededJobs && a.FailedJobs == b.FailedJobs &&
		equalValues(a.QueueDepth, b.QueueDepth) && equalValues(a.DesiredJobs, b.DesiredJobs)
}

func equalQueues(a, b scaledjobv1.QueueStatus) bool {
	return a.Name == b.Name && a.ConsumerGroup == b.ConsumerGroup && a.Window == b.Window &&
		equalValues(a.Depth, b.Depth) && closeTimes(a.NonEmptySince, b.NonEmptySince) &&
		closeTimes(a.OldestMessageTime, b.OldestMessageTime)
}

// leastDifference is the difference between two times of messages from which on a status is written because of it.
// These times change while a queue is in balance, and would cause writes all the time.
const leastDifference = time.Minute

// closeTimes reports whether two times of messages differ by less than that.
func closeTimes(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Sub(b.Time).Abs() < leastDifference
}

func equalConditions(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.ObservedGeneration == b.ObservedGeneration &&
		a.LastTransitionTime.Equal(&b.LastTransitionTime) && a.Reason == b.Reason && a.Message == b.Message
}

func equalValues[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
