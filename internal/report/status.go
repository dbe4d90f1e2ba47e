// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package report computes the status of a ScaledJob, and the events for its changes. All messages are here, except
// those about errors of Redis, which are in package failure. It is pure, except for the writer of statuses.
//
//	conditions.go     the conditions, and Ready, which follows from them
//	limits.go         why fewer Jobs are created than are due
//	notifications.go  whether Redis sends notifications
//	template.go       the result of the template's dry run
//	events.go         the events
//	writer.go         when and how the status is written
//	pace.go           how late it is written if only numbers have changed
//	same.go           whether two statuses are the same
package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Reconciled is the result of a reconcile.
type Reconciled struct {
	// Jobs are the owned Jobs before the reconcile, and Created is the number of Jobs that it created.
	Jobs    jobs.Owned
	Created int
	// Depth is the number of outstanding messages, and Desired the number of Jobs that should be active. Both are nil
	// if the queues could not be read; QueueErr is the error.
	Depth    *int64
	Desired  *int32
	QueueErr *failure.Error
	// Claimed is the number of active Jobs that count as having taken their messages; nil if the strategy does not depend
	// on it, or if the queues could not be read.
	Claimed *int32
	// Rejected is the error with which Redis rejects the current values of the Secrets, while connections made with the
	// previous values still work.
	Rejected *failure.Error
	// Replica means that the server is a replica.
	Replica bool
	// Queues are the queues of the spec, with the depth of each if it could be read.
	Queues []scaledjobv1.QueueStatus
	// FailedKey is the key that QueueErr is about, if the spec has several. WithoutGroup is a stream that lacks its
	// consumer group; nil if there is none.
	FailedKey    string
	WithoutGroup *scaledjobv1.Queue
	// Trimmed is a stream that has lost entries which are still pending; nil if there is none.
	Trimmed *scaledjobv1.Queue
	// AtMax is true if more Jobs are due than maxReplicas allows, and AtMaxPending if Jobs are due that maxPendingReplicas
	// does not allow. Limit is why creation is paused.
	AtMax, AtMaxPending bool
	Limit               scaling.PauseReason
	// PausedUntil is when the next Job may be created; zero if creation is not paused, or if that may be now.
	PausedUntil time.Time
	// Consumed is true if the failed Jobs have taken messages from the queue. Orphans are the orphaned messages.
	Consumed bool
	Orphans  Orphans
	// Due is true if more Jobs should be active than are. Failures is the number of reconciles in a row whose creates
	// failed or were refused, and Answer is what the API server said to the last one.
	Due      bool
	Failures int
	Answer   admission.Answer
	// Overdue is true if messages have waited for maxWaitSeconds.
	Overdue bool
	// NotReady are the active Jobs that have had no ready Pod for long. Unadmitted is true if all active Jobs have been
	// suspended for some seconds. Still is true if no message has left the queue for long.
	NotReady   jobs.Waiting
	Unadmitted bool
	Still      bool
	// Refresh is true if messages with the words of the API server may change although their reasons have not.
	Refresh bool
	// Notifications is what is known about the notifications for the queue.
	Notifications verify.Verdict
	// Tracking says whether Redis reports changes because it tracks the keys.
	Tracking verify.Tracking
	// Template is what the dry run or the creates show of the template; nil if that has not changed.
	Template *Condition
}

// Orphans are messages in progress that no unfinished Job can hold.
type Orphans struct {
	// Messages is how many there are at most, and Queue is the key of most of them. Probed is true if there is an
	// unfinished Job that was created for them.
	Messages int64
	Queue    *scaledjobv1.Queue
	Probed   bool
}

// Status returns the complete status after a reconcile that ended now. Fields that the reconcile has no information
// about keep their values, unless the spec has changed.
func Status(
	sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, seen Reconciled, now time.Time,
) *scaledjobv1.ScaledJobStatus {
	status := next(sj, before)
	status.ActiveJobs = int32(len(seen.Jobs.Active) + seen.Created)
	status.PendingJobs = int32(seen.Jobs.Pending() + seen.Created)
	status.SuspendedJobs = int32(seen.Jobs.Suspended())
	status.SucceededJobs = int32(len(seen.Jobs.Succeeded))
	status.FailedJobs = int32(len(seen.Jobs.Failed))
	if before.ObservedGeneration != sj.Generation || seen.Desired != nil {
		// After an edit the previous values may belong to other queues.
		status.QueueDepth, status.DesiredJobs, status.Queues = seen.Depth, seen.Desired, seen.Queues
		status.Queue, status.ClaimedJobs = summary(seen.Queues), seen.Claimed
	}
	if seen.Created > 0 {
		// The API server stores whole seconds.
		at := metav1.NewTime(now).Rfc3339Copy()
		status.LastScaleTime = &at
	}
	status.CreationPausedUntil = nil
	if until := seen.PausedUntil; !until.IsZero() {
		at := metav1.NewTime(until.Add(time.Second - 1)).Rfc3339Copy()
		status.CreationPausedUntil = &at
	}
	setConditions(sj, status, &seen)
	slices.SortStableFunc(status.Conditions, inOrder)
	return status
}

// next returns a copy of the previous status, for the current generation. It has only the conditions that this version
// of the operator knows: a write would adopt those of other field managers, and keep those of earlier versions.
func next(sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus) *scaledjobv1.ScaledJobStatus {
	status := before.DeepCopy()
	status.ObservedGeneration = sj.Generation
	status.Conditions = slices.DeleteFunc(status.Conditions, func(is metav1.Condition) bool {
		return !slices.Contains(conditionOrder, is.Type)
	})
	return status
}

// summary returns the name of the first queue and the number of the others.
func summary(queues []scaledjobv1.QueueStatus) string {
	switch len(queues) {
	case 0:
		return ""
	case 1:
		return queues[0].Name
	default:
		return fmt.Sprintf("%s, +%d", queues[0].Name, len(queues)-1)
	}
}

// unknownFields is an error of a spec with fields that this version of the operator does not know.
type unknownFields interface {
	error
	// UnknownFields returns the paths of the fields.
	UnknownFields() []string
}

// tooLarge is an error of a spec with a template that is larger than the operator takes.
type tooLarge interface {
	error
	TooLarge() bool
}

// Malformed returns the previous status with the error of decoding the spec, or of its size, in Ready and Stalled.
func Malformed(
	sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, cause error,
) *scaledjobv1.ScaledJobStatus {
	status := next(sj, before)
	// Errors and names may be very long.
	message := "The operator can't decode the spec; it may have been stored under an older CRD. Correct it: " +
		shorten(cause.Error(), maxCause) + "."
	if unknown, is := errors.AsType[unknownFields](cause); is {
		message = "This version of the operator does not know " + quoted(strings.Join(unknown.UnknownFields(), ", ")) +
			". Upgrade the operator, or remove what it does not know. Until then it creates and deletes no Jobs."
	}
	if large, is := errors.AsType[tooLarge](cause); is {
		message = large.Error() + ". Move scripts, and long lists such as env, to a ConfigMap or into the image. Until then " +
			"the operator creates and deletes no Jobs."
	}
	set(status, scaledjobv1.ConditionReady, Condition{metav1.ConditionFalse, scaledjobv1.ReasonInvalidSpec, message})
	set(status, scaledjobv1.ConditionStalled, Condition{metav1.ConditionTrue, scaledjobv1.ReasonInvalidSpec, message})
	slices.SortStableFunc(status.Conditions, inOrder)
	return status
}
