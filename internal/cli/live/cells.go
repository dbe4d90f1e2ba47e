// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"strconv"

	"charm.land/lipgloss/v2"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

// Name returns the name of a ScaledJob.
func Name(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) { return sj.Name, Strong }

// Depth returns the number of outstanding messages.
func Depth(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	if sj.Status.QueueDepth == nil {
		return layout.Unknown, Plain
	}
	return strconv.FormatInt(*sj.Status.QueueDepth, 10), Plain
}

// Active returns the number of unfinished Jobs.
func Active(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	return count(sj.Status.ActiveJobs, Strong)
}

// Pending returns the number of active Jobs without a ready Pod.
func Pending(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	return count(sj.Status.PendingJobs, Warn)
}

// count returns a number, with a style if it is not 0.
func count(n int32, style lipgloss.Style) (string, lipgloss.Style) {
	if n == 0 {
		style = Plain
	}
	return strconv.Itoa(int(n)), style
}

// Desired returns the number of Jobs that should be active.
func Desired(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	if sj.Status.DesiredJobs == nil {
		return layout.Unknown, Plain
	}
	return strconv.Itoa(int(*sj.Status.DesiredJobs)), Plain
}

// Limit returns the maximum of active Jobs.
func Limit(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	return strconv.Itoa(int(sj.Spec.MaxReplicasOrDefault())), Plain
}

// Mode returns how the operator learns of new messages.
func Mode(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	switch mode := sj.Status.Mode; mode {
	case "":
		return layout.Unknown, Plain
	case scaledjobv1.ModeEvents, scaledjobv1.ModeTracking:
		return string(mode), Good
	default:
		return string(mode), Warn
	}
}

// Ready returns True, or the reason if the ScaledJob is not ready.
func Ready(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	switch is := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionReady); {
	case is == nil:
		return layout.Unknown, Plain
	case is.Status == metav1.ConditionTrue:
		return string(is.Status), Good
	default:
		return is.Reason, Bad
	}
}

// Limited returns the reason for which fewer Jobs are created, or run, than are due.
func Limited(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	is := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionScalingLimited)
	if is == nil || is.Status != metav1.ConditionTrue {
		return layout.Unknown, Plain
	}
	return is.Reason, Warn
}
