// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package report says what users are told of a ScaledJob: its status, and the events when that turns. Its words are here, but for those
// about Redis errors, which are in package failure. It is pure: what a pass saw and did goes in, and what to tell comes out.
//
//	conditions.go     what each condition says, and what follows from it
//	notifications.go  whether the growth of the queue is announced
//	template.go       what the API server says of the template
//	events.go         what is worth an event
package report

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Reconciled is what a reconcile saw and did.
type Reconciled struct {
	// Jobs are those that were there, and Created is how many were created besides.
	Jobs    jobs.Owned
	Created int
	// Depth is how many messages are outstanding, and Desired how many Jobs should be active. Both are nil if the depth could not be read;
	// QueueErr says why.
	Depth    *int64
	Desired  *int32
	QueueErr *failure.Error
	// Rejected says why the server does not take what the Secrets hold now, while it is used with what they held before.
	Rejected *failure.Error
	// Queues are those of the spec, with the depth of each where it could be read.
	Queues []scaledjobv1.QueueStatus
	// FailedKey is the one of several keys that QueueErr is about, and WithoutGroup a stream that has no such consumer group, nil if there is none.
	FailedKey    string
	WithoutGroup *scaledjobv1.Queue
	// AtMax says that more Jobs are due than may be active, and Limit why creating pauses.
	AtMax bool
	Limit scaling.PauseReason
	// Notifications is what is known about those of the queue.
	Notifications verify.Verdict
	// Template is what the API server says of the template, nil where it was not asked.
	Template *Condition
	// RolloutGeneration is that of the last edit of the template for which Jobs are to be replaced.
	RolloutGeneration int64
}

// Status is the whole status after a reconcile that ended now. What it could not see stays as it was before, as long as the spec does.
func Status(sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, seen Reconciled, now time.Time) *scaledjobv1.ScaledJobStatus {
	status := before.DeepCopy()
	status.ObservedGeneration = sj.Generation
	status.ActiveJobs = int32(len(seen.Jobs.Active) + seen.Created)
	status.PendingJobs = int32(seen.Jobs.Pending() + seen.Created)
	status.SucceededJobs = int32(len(seen.Jobs.Succeeded))
	status.FailedJobs = int32(len(seen.Jobs.Failed))
	status.RolloutGeneration = seen.RolloutGeneration
	if before.ObservedGeneration != sj.Generation || seen.Desired != nil {
		// Before an edit they may be those of other queues.
		status.QueueDepth, status.DesiredJobs, status.Queues = seen.Depth, seen.Desired, seen.Queues
		status.Queue = inShort(seen.Queues)
	}
	if seen.Created > 0 {
		// Whole seconds, as the API server keeps them.
		at := metav1.NewTime(now).Rfc3339Copy()
		status.LastScaleTime = &at
	}
	setConditions(sj, status, &seen)
	slices.SortStableFunc(status.Conditions, inOrder)
	return status
}

// inShort names the first of the queues, and how many more there are.
func inShort(queues []scaledjobv1.QueueStatus) string {
	switch len(queues) {
	case 0:
		return ""
	case 1:
		return queues[0].Name
	default:
		return fmt.Sprintf("%s, +%d", queues[0].Name, len(queues)-1)
	}
}

// Malformed is the status before, but that it says what keeps the spec from being read.
func Malformed(sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, cause error) *scaledjobv1.ScaledJobStatus {
	status := before.DeepCopy()
	status.ObservedGeneration = sj.Generation
	message := "The operator can't decode the spec; it may have been stored under an older CRD. Correct it: " +
		shorten(cause.Error(), maxCause) + "." // It may repeat a value that is very long.
	set(status, scaledjobv1.ConditionReady, Condition{metav1.ConditionFalse, scaledjobv1.ReasonInvalidSpec, message})
	set(status, scaledjobv1.ConditionStalled, Condition{metav1.ConditionTrue, scaledjobv1.ReasonInvalidSpec, message})
	slices.SortStableFunc(status.Conditions, inOrder)
	return status
}
