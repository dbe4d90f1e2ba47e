// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strconv"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Condition is the content of a status condition. Messages say what users can do. Those with numbers that change are
// steady.
type Condition struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// changed reports whether conditions were added or removed, or changed other than in their messages.
func changed(before, after []metav1.Condition) bool {
	return !slices.EqualFunc(before, after, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason &&
			a.ObservedGeneration == b.ObservedGeneration
	})
}

// conditionOrder is the order of the conditions in the status: the summary first, then the conditions that it follows
// from.
var conditionOrder = []string{
	scaledjobv1.ConditionReady,
	scaledjobv1.ConditionStalled,
	scaledjobv1.ConditionReconciling,
	scaledjobv1.ConditionQueueConnected,
	scaledjobv1.ConditionNotificationsActive,
	scaledjobv1.ConditionTemplateValid,
	scaledjobv1.ConditionScalingLimited,
}

func inOrder(a, b metav1.Condition) int {
	return slices.Index(conditionOrder, a.Type) - slices.Index(conditionOrder, b.Type)
}

// set sets a condition of the status, with the observed generation of the status.
func set(status *scaledjobv1.ScaledJobStatus, kind string, is Condition) {
	apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: is.Status, Reason: is.Reason, Message: is.Message,
		ObservedGeneration: status.ObservedGeneration,
		// The API server stores whole seconds.
		LastTransitionTime: metav1.Now().Rfc3339Copy(),
	})
}

// setSteady is set, but keeps the message if only that has changed and refresh is false: the words of the API server
// may hold numbers that change with each request. It does not keep the one that the API server has not said anything.
func setSteady(status *scaledjobv1.ScaledJobStatus, kind string, is Condition, refresh bool) {
	before := apimeta.FindStatusCondition(status.Conditions, kind)
	same := before != nil && before.Reason == is.Reason && before.ObservedGeneration == status.ObservedGeneration
	if same && !refresh && steady[is.Reason] && before.Message != unanswered {
		is.Message = before.Message
	}
	set(status, kind, is)
}

// Refreshed reports whether a message with the words of the API server has changed.
func Refreshed(before, after *scaledjobv1.ScaledJobStatus) bool {
	return slices.ContainsFunc(after.Conditions, func(is metav1.Condition) bool {
		was := apimeta.FindStatusCondition(before.Conditions, is.Type)
		return steady[is.Reason] && (was == nil || was.Message != is.Message)
	})
}

// ownLimits are the reasons of ScalingLimited that only say what the spec asks for.
var ownLimits = map[string]bool{scaledjobv1.ReasonAtMaxReplicas: true, scaledjobv1.ReasonAtMaxPending: true}

// steady are the reasons whose messages quote the API server, or hold numbers.
var steady = map[string]bool{
	scaledjobv1.ReasonCreateRefused: true, scaledjobv1.ReasonCreateFailing: true, scaledjobv1.ReasonRejected: true,
	scaledjobv1.ReasonJobsNotStarting: true, scaledjobv1.ReasonMessagesOrphaned: true, scaledjobv1.ReasonNotChecked: true,
	scaledjobv1.ReasonJobsSuspended: true,
}

// setConditions sets the mode and all conditions that the reconcile has information about. Ready follows from the
// others.
func setConditions(sj *scaledjobv1.ScaledJob, status *scaledjobv1.ScaledJobStatus, seen *Reconciled) {
	if active := notificationsActive(&sj.Spec, seen.Notifications, seen.Tracking); active != nil {
		set(status, scaledjobv1.ConditionNotificationsActive, *active)
		status.Mode = modeOf(*active, seen.Tracking)
	}
	if seen.Desired != nil {
		limited := scalingLimited(sj, seen)
		if before := Limit(status); string(before) != limited.Reason {
			// Each reason gets its own transition time.
			remove(status, scaledjobv1.ConditionScalingLimited)
		}
		setSteady(status, scaledjobv1.ConditionScalingLimited, limited, seen.Refresh)
	}
	if seen.Template != nil {
		setSteady(status, scaledjobv1.ConditionTemplateValid, *seen.Template, seen.Refresh)
	}
	switch {
	case !seen.QueueErr.Busy():
		set(status, scaledjobv1.ConditionQueueConnected, queueConnected(seen))
		failures := 0
		if seen.Due {
			failures = seen.Failures
		}
		is := ready(sj.Spec.Suspend, status.Conditions, failures)
		present, cause := abnormal(is, status.Conditions)
		setReady(status, is, present, cause)
	case !isConnectionKnown(sj.Generation, status.Conditions): // Ready must not seem to apply to this spec.
		is := queueConnected(seen)
		setReady(status, is, scaledjobv1.ConditionReconciling, is)
	}
}

// setReady sets Ready. It also sets the kstatus condition that goes with it, Stalled or Reconciling, with its cause,
// and removes the other one; present is empty for neither.
func setReady(status *scaledjobv1.ScaledJobStatus, is Condition, present string, cause Condition) {
	set(status, scaledjobv1.ConditionReady, is)
	for _, kind := range []string{scaledjobv1.ConditionReconciling, scaledjobv1.ConditionStalled} {
		if kind == present {
			set(status, kind, Condition{metav1.ConditionTrue, cause.Reason, cause.Message})
		} else {
			remove(status, kind)
		}
	}
}

// remove removes a condition. Most often there is none, and then nothing is copied.
func remove(status *scaledjobv1.ScaledJobStatus, kind string) {
	if apimeta.FindStatusCondition(status.Conditions, kind) != nil {
		apimeta.RemoveStatusCondition(&status.Conditions, kind)
	}
}

// isConnectionKnown reports whether QueueConnected is known for this generation.
func isConnectionKnown(generation int64, conditions []metav1.Condition) bool {
	connected := apimeta.FindStatusCondition(conditions, scaledjobv1.ConditionQueueConnected)
	return connected != nil && connected.ObservedGeneration == generation
}

func queueConnected(seen *Reconciled) Condition {
	switch {
	case seen.QueueErr != nil:
		message := seen.QueueErr.Message
		if seen.FailedKey != "" {
			message = quoted(seen.FailedKey) + " of spec.queues: " + message
		}
		return Condition{metav1.ConditionFalse, string(seen.QueueErr.Reason), message}
	case seen.WithoutGroup != nil:
		return Condition{
			metav1.ConditionFalse, scaledjobv1.ReasonConsumerGroupNotFound,
			"The stream " + quoted(seen.WithoutGroup.Name) + " contains entries, but has no consumer group " +
				quoted(seen.WithoutGroup.Stream.ConsumerGroup) + ". Until the group exists, one message counts as " +
				"waiting, so that a worker can start and create it. Correct the name, let the workers create the " +
				"group, or run XGROUP CREATE.",
		}
	}
	if seen.Rejected != nil {
		return Condition{
			metav1.ConditionTrue, scaledjobv1.ReasonSecretRejected,
			"The depth of the queue was read with the previous values of the Secrets. Redis rejects the current " +
				"Secret; the connection will fail when it is next re-established, for example after a restart. " +
				seen.Rejected.Message,
		}
	}
	if seen.Trimmed != nil {
		return Condition{metav1.ConditionTrue, scaledjobv1.ReasonConnected, trimmed(seen.Trimmed)}
	}
	if seen.Replica {
		return Condition{
			metav1.ConditionTrue, scaledjobv1.ReasonConnected,
			"The depth of the queue was read. But the server is a replica, whose data may be old: a message may get a second Job, or wait. " +
				"Use the address of the master, or mode: Sentinel.",
		}
	}
	return Condition{metav1.ConditionTrue, scaledjobv1.ReasonConnected, "The depth of the queue was read."}
}

// trimmed returns the message for a stream that has lost entries which are still pending. XAUTOCLAIM removes these
// whatever the idle time is; with such a long one, it takes no other entry from its worker.
func trimmed(from *scaledjobv1.Queue) string {
	stream, group := quoted(from.Name), quoted(from.Stream.ConsumerGroup)
	return "The depth of the queue was read. But the consumer group " + group + " has pending entries that no longer exist in the stream " +
		stream + ": they were trimmed or deleted before a worker acknowledged them. These messages are lost, and the depth excludes " +
		"them. Let producers keep more entries (MAXLEN). To remove the pending ones, run XAUTOCLAIM " + stream + " " + group +
		" CONSUMER 9999999999 0 with Redis 7.0 or newer, and again with the ID that it returns first instead of 0, until that is 0-0. " +
		"Because of the long idle time, workers keep their entries. With older versions, run XACK with each ID of XPENDING."
}

// quoted quotes the name of a key or a consumer group, which may be long and contain any bytes.
func quoted(name string) string { return strconv.Quote(shorten(name, maxCause)) }

// readyFollows are the conditions that determine Ready.
var readyFollows = []string{scaledjobv1.ConditionQueueConnected, scaledjobv1.ConditionTemplateValid}

// manyFailures is the number of failed or refused creates in a row from which on Ready is False.
const manyFailures = 2

// ready returns False with the reason and message of the first condition that prevents scaling, and True otherwise.
// failures is the number of failed or refused creates in a row.
func ready(suspended bool, conditions []metav1.Condition, failures int) Condition {
	for _, kind := range readyFollows {
		cause := apimeta.FindStatusCondition(conditions, kind)
		if cause != nil && cause.Status == metav1.ConditionFalse {
			return Condition{metav1.ConditionFalse, cause.Reason, cause.Message}
		}
	}
	limited := apimeta.FindStatusCondition(conditions, scaledjobv1.ConditionScalingLimited)
	switch {
	case suspended:
		return Condition{
			metav1.ConditionTrue, scaledjobv1.ReasonSuspended,
			"The operator creates no Jobs while spec.suspend is true.",
		}
	case limited == nil || limited.Status != metav1.ConditionTrue || ownLimits[limited.Reason]:
	case failures >= manyFailures && aboutCreates(limited.Reason):
		return Condition{metav1.ConditionFalse, limited.Reason, limited.Message}
	default:
		return Condition{
			metav1.ConditionTrue, scaledjobv1.ReasonReconciled,
			"The operator scales the Jobs by the depth of the queue, as far as the condition ScalingLimited allows.",
		}
	}
	return Condition{
		metav1.ConditionTrue, scaledjobv1.ReasonReconciled,
		"The operator scales the Jobs by the depth of the queue.",
	}
}

// abnormal returns the kstatus condition for a Ready that is not True, and its cause: Stalled if a user has to act, and
// Reconciling otherwise. It returns none if Ready is True.
func abnormal(ready Condition, conditions []metav1.Condition) (kind string, cause Condition) {
	if ready.Status == metav1.ConditionTrue {
		return "", ready
	}
	for _, kind := range readyFollows {
		is := apimeta.FindStatusCondition(conditions, kind)
		if is != nil && is.Status == metav1.ConditionFalse && needsUser(is.Reason) {
			return scaledjobv1.ConditionStalled, Condition{is.Status, is.Reason, is.Message}
		}
	}
	return scaledjobv1.ConditionReconciling, ready
}

// needsUser reports whether a condition with this reason stays False until a user acts. An unreachable server may come
// back, and workers may create the consumer group.
func needsUser(reason string) bool {
	return reason != scaledjobv1.ReasonUnreachable && reason != scaledjobv1.ReasonConsumerGroupNotFound
}
