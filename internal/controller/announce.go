// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// The reasons of the events. Losing the queue for another cause than the network has the reason of the condition.
const (
	eventCreatedJobs      = "CreatedJobs"
	eventJobCreateFailed  = "JobCreateFailed"
	eventCreationResumed  = "CreationResumed"
	eventRedisUnreachable = "RedisUnreachable"
	eventQueueConnected   = "QueueConnected"
	eventTemplateRejected = "TemplateRejected"

	eventNotificationsUnavailable = "NotificationsUnavailable"
	eventNotificationsRestored    = "NotificationsRestored"
)

// announceCreates emits an event for a batch of created Jobs, and one when creating them begins to fail. The notes hold no numbers, since
// a series of events keeps the note of its first.
func (r *Reconciler) announceCreates(sj *scaledjobv1.ScaledJob, done outcome) {
	if done.created > 0 {
		r.event(sj, corev1.EventTypeNormal, eventCreatedJobs, "Scale", "Created Jobs for the messages in the queue.")
	}
	if done.createFailing {
		r.event(sj, corev1.EventTypeWarning, eventJobCreateFailed, "Scale",
			"The API server did not create a Job that is due, and did not refuse it either. The operator's log has its answer.")
	}
}

// announceConditions emits an event for each condition that turned, once the status that says so is written.
func (r *Reconciler) announceConditions(sj *scaledjobv1.ScaledJob, before, after *scaledjobv1.ScaledJobStatus) {
	r.announceQueue(sj, before, after)
	r.announceNotifications(sj, before, after)
	r.announcePauses(sj, before, after)
	if is := turned(before, after, scaledjobv1.ConditionTemplateValid); is != nil && is.Status == metav1.ConditionFalse {
		r.event(sj, corev1.EventTypeWarning, eventTemplateRejected, "CheckTemplate", is.Message)
	}
}

// announcePauses tells why creating pauses, and that it goes on.
func (r *Reconciler) announcePauses(sj *scaledjobv1.ScaledJob, before, after *scaledjobv1.ScaledJobStatus) {
	is := turned(before, after, scaledjobv1.ConditionScalingLimited)
	if is == nil {
		return
	}
	switch {
	case pauses[limitOf(after)] != "":
		r.event(sj, corev1.EventTypeWarning, is.Reason, "Scale", is.Message)
	case pauses[limitOf(before)] != "":
		r.event(sj, corev1.EventTypeNormal, eventCreationResumed, "Scale", "Creating Jobs does not pause any more.")
	}
}

func (r *Reconciler) announceQueue(sj *scaledjobv1.ScaledJob, before, after *scaledjobv1.ScaledJobStatus) {
	is := turned(before, after, scaledjobv1.ConditionQueueConnected)
	switch {
	case is == nil:
	case is.Status == metav1.ConditionTrue:
		if apimeta.IsStatusConditionFalse(before.Conditions, is.Type) {
			r.event(sj, corev1.EventTypeNormal, eventQueueConnected, "ReadQueue", "The depth of the queue can be read again.")
		}
	case is.Reason == scaledjobv1.ReasonUnreachable:
		r.event(sj, corev1.EventTypeWarning, eventRedisUnreachable, "ReadQueue", is.Message)
	default:
		r.event(sj, corev1.EventTypeWarning, is.Reason, "ReadQueue", is.Message)
	}
}

// announceNotifications tells when the growth of the queue is not announced, other than by the user's wish, and when it is again.
func (r *Reconciler) announceNotifications(sj *scaledjobv1.ScaledJob, before, after *scaledjobv1.ScaledJobStatus) {
	kind := scaledjobv1.ConditionNotificationsActive
	was, is := apimeta.FindStatusCondition(before.Conditions, kind), apimeta.FindStatusCondition(after.Conditions, kind)
	if is == nil || is.Reason == scaledjobv1.ReasonDisabled {
		return
	}
	wasActive := was != nil && was.Status == metav1.ConditionTrue
	wasInactive := was != nil && was.Status == metav1.ConditionFalse
	active := is.Status == metav1.ConditionTrue
	switch {
	case wasActive && !active, is.Status == metav1.ConditionFalse && !wasInactive:
		r.event(sj, corev1.EventTypeWarning, eventNotificationsUnavailable, "Subscribe", is.Message)
	case active && was != nil && !wasActive && was.Reason != scaledjobv1.ReasonDisabled:
		r.event(sj, corev1.EventTypeNormal, eventNotificationsRestored, "Subscribe", is.Message)
	}
}

// turned is the condition of this type, if its status or reason is another than before.
func turned(before, after *scaledjobv1.ScaledJobStatus, kind string) *metav1.Condition {
	was := apimeta.FindStatusCondition(before.Conditions, kind)
	is := apimeta.FindStatusCondition(after.Conditions, kind)
	if is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
		return nil
	}
	return is
}

// event regards the ScaledJob without its resourceVersion, which would make every event one of its own.
func (r *Reconciler) event(sj *scaledjobv1.ScaledJob, kind, reason, action, note string) {
	regarding := &corev1.ObjectReference{
		APIVersion: scaledjobv1.GroupVersion.String(),
		Kind:       "ScaledJob",
		Namespace:  sj.Namespace,
		Name:       sj.Name,
		UID:        sj.UID,
	}
	r.Recorder.Eventf(regarding, nil, kind, reason, action, "%s", shorten(note, maxNote))
}

// maxNote is the longest note that the API server takes.
const maxNote = 1024
