// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
)

// reconcileIDAnnotation is the annotation of an event with the ID of the reconcile in which it occurred.
const reconcileIDAnnotation = "batch.miracle.dev/reconcile-id"

// occurrence is an event, and the ID of the reconcile in which it occurred.
type occurrence struct {
	event     report.Event
	reconcile types.UID
}

// during returns events that occurred in a reconcile.
func during(reconcile types.UID, events []report.Event) []occurrence {
	all := make([]occurrence, len(events))
	for i, event := range events {
		all[i] = occurrence{event, reconcile}
	}
	return all
}

// note keeps events until the next status is written. Of an event that is kept already, the first occurrence counts, as
// in a series.
func (t *target) note(events ...report.Event) {
	for _, each := range during(t.reconcile, events) {
		kept := func(other occurrence) bool { return other.event == each.event }
		if !slices.ContainsFunc(t.mem.pendingEvents, kept) {
			t.mem.pendingEvents = append(t.mem.pendingEvents, each)
		}
	}
}

// emit emits events about the ScaledJob. The reference leaves out the resourceVersion: with it, repeated events would
// not be combined into one series.
func (r *Reconciler) emit(sj *scaledjobv1.ScaledJob, all []occurrence) {
	regarding := &corev1.ObjectReference{
		APIVersion: scaledjobv1.GroupVersion.String(),
		Kind:       "ScaledJob",
		Namespace:  sj.Namespace,
		Name:       sj.Name,
		UID:        sj.UID,
	}
	for _, each := range all {
		annotations := map[string]string{reconcileIDAnnotation: string(each.reconcile)}
		event := each.event
		r.Recorder.AnnotatedEventf(regarding, nil, annotations, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
}
