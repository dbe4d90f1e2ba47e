// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// The reasons of events. If the queue can't be read for another cause than the network, the event has the reason of the
// condition.
const (
	eventCreatedJobs      = "CreatedJobs"
	eventReplacedJobs     = "ReplacedJobs"
	eventDeletedHistory   = "DeletedHistory"
	eventCreationResumed  = "CreationResumed"
	eventRedisUnreachable = "RedisUnreachable"
	eventQueueConnected   = "QueueConnected"
	eventTemplateRejected = "TemplateRejected"
	eventTemplateWarning  = "TemplateWarning"
	eventSharedQueue      = "SharedQueue"

	eventNotificationsUnavailable = "NotificationsUnavailable"
	eventNotificationsRestored    = "NotificationsRestored"
)

// Event is the content of an event. Repeated events keep the note of the first.
type Event struct {
	// Type is Normal or Warning, and Action is the action during which the event occurred.
	Type, Reason, Action, Note string
}

// maxNote is the maximum length of a note that the API server accepts, in bytes.
const maxNote = 1024

func normal(reason, action, note string) Event {
	return Event{corev1.EventTypeNormal, reason, action, shorten(note, maxNote)}
}

func warning(reason, action, note string) Event {
	return Event{corev1.EventTypeWarning, reason, action, shorten(note, maxNote)}
}

// CreatedJobs reports that Jobs were created.
func CreatedJobs() Event {
	return normal(eventCreatedJobs, "Scale", "Created Jobs for the messages in the queue.")
}

// ReplacedJobs reports that unfinished Jobs of an earlier template were deleted.
func ReplacedJobs() Event {
	return normal(eventReplacedJobs, "RollOut",
		"Deleted unfinished Jobs of an earlier template, because of spec.rollout.strategy.")
}

// DeletedHistory reports that finished Jobs within the history limits were deleted.
func DeletedHistory(quota string) Event {
	return normal(eventDeletedHistory, "Prune", "Deleted the oldest finished Jobs, because the quota "+quoted(quota)+
		" has no room for new Jobs. Lower spec.successfulJobsHistoryLimit and spec.failedJobsHistoryLimit, or raise the quota.")
}

// SharedQueue reports that another ScaledJob of the namespace counts the messages of the same queue.
func SharedQueue(key, other string) Event {
	return warning(eventSharedQueue, "ReadQueue", "The ScaledJob "+quoted(other)+" counts the messages of "+quoted(key)+
		" on the same server as well, so that each message gets a Job of both. Let only one of them name this key.")
}

// Events returns the events for the conditions that changed between two statuses.
func Events(before, after *scaledjobv1.ScaledJobStatus) []Event {
	var all []Event
	for _, found := range []*Event{
		aboutSpec(before, after), aboutQueue(before, after), aboutNotifications(before, after),
		aboutLimits(before, after), aboutTemplate(before, after),
	} {
		if found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// aboutSpec reports a spec that can't be used.
func aboutSpec(before, after *scaledjobv1.ScaledJobStatus) *Event {
	is := changedCondition(before, after, scaledjobv1.ConditionReady)
	if is != nil && is.Reason == scaledjobv1.ReasonInvalidSpec {
		return new(warning(is.Reason, "ReadSpec", is.Message))
	}
	return nil
}

// aboutTemplate reports a rejected template, and warnings about one.
func aboutTemplate(before, after *scaledjobv1.ScaledJobStatus) *Event {
	is := changedCondition(before, after, scaledjobv1.ConditionTemplateValid)
	if why := Limit(after); why == scaling.CreateRefused {
		return nil // There is an event about that.
	}
	if is != nil && is.Status == metav1.ConditionFalse {
		return new(warning(eventTemplateRejected, "CheckTemplate", is.Message))
	}
	is = apimeta.FindStatusCondition(after.Conditions, scaledjobv1.ConditionTemplateValid)
	was := apimeta.FindStatusCondition(before.Conditions, scaledjobv1.ConditionTemplateValid)
	if is != nil && strings.HasPrefix(is.Message, templateAccepted.Message+warns) && (was == nil || was.Message != is.Message) {
		return new(warning(eventTemplateWarning, "CheckTemplate", is.Message))
	}
	return nil
}

// aboutLimits reports that something keeps Jobs from being created, and that it ended. That more Jobs are due than
// maxReplicas or maxPendingReplicas allows, or that a user has suspended creation, needs no warning.
func aboutLimits(before, after *scaledjobv1.ScaledJobStatus) *Event {
	is := changedCondition(before, after, scaledjobv1.ConditionScalingLimited)
	switch {
	case is == nil:
	case warned(after):
		return new(warning(is.Reason, "Scale", is.Message))
	case warned(before) && is.Status == metav1.ConditionFalse:
		return new(normal(eventCreationResumed, "Scale", "Nothing holds Jobs back any more."))
	}
	return nil
}

// warned reports whether there was a warning about ScalingLimited as it is in the status.
func warned(status *scaledjobv1.ScaledJobStatus) bool {
	switch string(Limit(status)) {
	case scaledjobv1.ReasonCreateFailing, scaledjobv1.ReasonJobsNotStarting, scaledjobv1.ReasonMessagesOrphaned,
		scaledjobv1.ReasonJobsSuspended:
		return true
	default:
		return Pausing(status)
	}
}

func aboutQueue(before, after *scaledjobv1.ScaledJobStatus) *Event {
	is := changedCondition(before, after, scaledjobv1.ConditionQueueConnected)
	switch {
	case is == nil:
	case is.Reason == scaledjobv1.ReasonSecretRejected:
		return new(warning(is.Reason, "ReadSecret", is.Message))
	case is.Status == metav1.ConditionTrue:
		if apimeta.IsStatusConditionFalse(before.Conditions, is.Type) {
			return new(normal(eventQueueConnected, "ReadQueue", "The depth of the queue can be read again."))
		}
	case is.Reason == scaledjobv1.ReasonUnreachable:
		return new(warning(eventRedisUnreachable, "ReadQueue", is.Message))
	default:
		return new(warning(is.Reason, "ReadQueue", is.Message))
	}
	return nil
}

// aboutNotifications reports that Redis sends no notifications, unless spec.notifications asks for none, and that it
// sends them again. That a server never sent any needs no warning: the keys are tracked instead.
func aboutNotifications(before, after *scaledjobv1.ScaledJobStatus) *Event {
	kind := scaledjobv1.ConditionNotificationsActive
	was, is := apimeta.FindStatusCondition(before.Conditions, kind), apimeta.FindStatusCondition(after.Conditions, kind)
	if is == nil || unwanted(is) {
		return nil
	}
	wasActive := apimeta.IsStatusConditionTrue(before.Conditions, kind)
	wasInactive := apimeta.IsStatusConditionFalse(before.Conditions, kind)
	switch {
	case is.Status == metav1.ConditionTrue:
		if was != nil && !wasActive && !unwanted(was) {
			return new(normal(eventNotificationsRestored, "Subscribe", is.Message))
		}
	case wasActive:
		return new(warning(eventNotificationsUnavailable, "Subscribe", withoutOtherSource(is.Message)))
	case is.Status == metav1.ConditionFalse && !wasInactive:
		return new(normal(eventNotificationsUnavailable, "Subscribe", withoutOtherSource(is.Message)))
	}
	return nil
}

// unwanted reports whether spec.notifications asks for no notifications, according to the condition.
func unwanted(is *metav1.Condition) bool {
	return is.Reason == scaledjobv1.ReasonDisabled || is.Reason == scaledjobv1.ReasonNotSubscribed
}

// changedCondition returns the condition of this type if its status or reason has changed, and nil otherwise.
func changedCondition(before, after *scaledjobv1.ScaledJobStatus, kind string) *metav1.Condition {
	was := apimeta.FindStatusCondition(before.Conditions, kind)
	is := apimeta.FindStatusCondition(after.Conditions, kind)
	if is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
		return nil
	}
	return is
}

// shorten removes invalid UTF-8, and cuts the text at a character boundary if it exceeds the limit in bytes.
func shorten(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
