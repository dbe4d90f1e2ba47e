// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"math"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func (e *explainer) because(format string, args ...any) {
	e.is.Why = append(e.is.Why, fmt.Sprintf(format, args...))
}

func (e *explainer) change(format string, args ...any) {
	e.is.Changes = append(e.is.Changes, fmt.Sprintf(format, args...))
}

func (e *explainer) next(format string, args ...any) {
	e.is.Next = append(e.is.Next, fmt.Sprintf(format, args...))
}

// has returns a condition if it has the status; nil otherwise.
func (e *explainer) has(kind string, status metav1.ConditionStatus) *metav1.Condition {
	if is := apimeta.FindStatusCondition(e.sj.Status.Conditions, kind); is != nil && is.Status == status {
		return is
	}
	return nil
}

// explainWhy says why there are so many Jobs, in the words of the conditions where they have a cause.
func (e *explainer) explainWhy() {
	if len(e.sj.Status.Conditions) == 0 {
		e.because("The operator has not reported anything about this ScaledJob yet.")
		e.change("See whether the operator runs, whether it is ready, and whether it watches namespace %s.", e.sj.Namespace)
		return
	}
	if e.sj.Status.ObservedGeneration != e.sj.Generation {
		e.because("The operator has not seen the last edit of the spec yet, so the numbers may be of the spec before.")
	}
	if is := e.has(scaledjobv1.ConditionReady, metav1.ConditionFalse); is != nil {
		e.because("The ScaledJob is not ready (%s). %s", is.Reason, is.Message)
	}
	e.warn(scaledjobv1.ConditionQueueConnected, wasRead)
	e.warn(scaledjobv1.ConditionTemplateValid, wasAccepted)
	limited := e.has(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue)
	if limited != nil {
		e.because("Fewer Jobs are created, or run, than are due (%s). %s", limited.Reason, limited.Message)
	}
	if e.sj.Spec.Suspend {
		if limited == nil {
			e.because("spec.suspend is true, so no Jobs are created.")
		}
		e.change("To create Jobs again: kubectl scaledjob resume %s --namespace=%s", e.sj.Name, e.sj.Namespace)
	}
	e.compare(limited != nil)
	e.explainMore()
}

// Messages of conditions that are True, if nothing else is to be said.
const (
	wasRead     = "The depth of the queue was read."
	wasAccepted = "The API server accepted a Job of this template."
)

// warn gives the message of a condition that is True.
func (e *explainer) warn(kind, usual string) {
	if is := e.has(kind, metav1.ConditionTrue); is != nil && is.Message != usual {
		e.because("%s is True (%s). %s", kind, is.Reason, is.Message)
	}
}

// compare says what the numbers of active and desired Jobs mean.
func (e *explainer) compare(limited bool) {
	if e.is.Desired == nil {
		return
	}
	if text := e.balance(int64(e.is.Jobs.Active), int64(*e.is.Desired), limited); text != "" {
		e.because("%s", text)
	}
	if is := e.has(scaledjobv1.ConditionScalingLimited, metav1.ConditionFalse); is != nil && is.Message != noneHeld {
		e.because("%s", is.Message)
	}
}

// balance says how the active and the desired Jobs differ; empty if a condition has already said why.
func (e *explainer) balance(active, desired int64, limited bool) string {
	switch {
	case active > desired:
		return fmt.Sprintf("%d Jobs are active and %d desired. The operator deletes no Job because there are fewer messages: the others end "+
			"by themselves.", active, desired)
	case limited, active < desired && e.sj.Spec.Suspend:
		return ""
	case active < desired:
		return fmt.Sprintf("%s active and %d desired: the others are being created.", jobsAre(active), desired)
	case active == 0:
		return "No Job is desired, and none is active."
	case e.is.Jobs.Pending > 0:
		return fmt.Sprintf("There are as many active Jobs as desired; %d of them have no ready Pod.", e.is.Jobs.Pending)
	}
	return "There are as many active Jobs as desired."
}

// noneHeld is the message of ScalingLimited that adds nothing to the numbers.
const noneHeld = "No Job is held back."

// explainMore says which numbers would make another Job due.
func (e *explainer) explainMore() {
	if desired := e.is.Desired; desired != nil && *desired >= e.policy.MaxReplicas && e.policy.MaxReplicas >= 0 {
		e.change("More Jobs need a higher maxReplicas, which is %d.", e.policy.MaxReplicas)
		return
	}
	held := e.has(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue) != nil
	if n := e.untilNext(); n > 0 && e.is.Outstanding != nil && !held {
		e.change("One more Job is desired with %s, at %d outstanding.", plural(n, "more message"), *e.is.Outstanding+n)
	}
	if most := e.policy.MaxPendingReplicas; most > 0 && int32(e.is.Jobs.Pending) >= most {
		e.change("No Job is created while %d are pending: maxPendingReplicas is %d.", e.is.Jobs.Pending, most)
	}
}

// explainNext says when the operator reads the queue again.
func (e *explainer) explainNext() {
	interval := e.sj.Spec.PollingInterval()
	switch e.sj.Status.Mode {
	case scaledjobv1.ModeEvents, scaledjobv1.ModeTracking:
		e.next("Within milliseconds after a push, because Redis reports changes of the keys (mode %s).", e.sj.Status.Mode)
	case scaledjobv1.ModePolling:
		e.explainPolling(interval)
	default:
		e.next("It is not known yet how the operator learns of new messages.")
	}
	if e.has(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse) != nil {
		e.next("Every few seconds until the queue can be read.")
	}
	e.explainNotifications()
	e.next("When a Job becomes ready, ends or is deleted, and when the ScaledJob is edited.")
	e.explainTimes()
	e.next("At the latest %s after the last read, plus or minus 10 %%.", seconds(interval))
}

func (e *explainer) explainPolling(interval time.Duration) {
	text := "At the next poll: every 5 s unless the operator was started with another interval, and less often if very many ScaledJobs " +
		"share the server (mode Polling)."
	if e.sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		text = fmt.Sprintf("At the next poll, every %s (mode Polling).", seconds(interval))
	}
	e.next("%s", text)
}

// explainNotifications says why Redis sends no notifications, unless the spec asks for tracking, and that works.
// Whether an unreachable server sends any is not the question.
func (e *explainer) explainNotifications() {
	is := apimeta.FindStatusCondition(e.sj.Status.Conditions, scaledjobv1.ConditionNotificationsActive)
	unwanted := e.sj.Spec.Notifications == scaledjobv1.NotificationsTracking && e.sj.Status.Mode == scaledjobv1.ModeTracking
	if is == nil || is.Status == metav1.ConditionTrue || unwanted || e.has(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse) != nil {
		return
	}
	e.next("NotificationsActive is %s (%s). %s", is.Status, is.Reason, is.Message)
}

// explainTimes names the moments at which Jobs may become due without a new message.
func (e *explainer) explainTimes() {
	if until := e.sj.Status.CreationPausedUntil; until != nil {
		if wait := until.Sub(e.facts.Now); wait > 0 {
			e.next("The next Job may be created at %s, in %s; a message that arrives may get one earlier.",
				until.UTC().Format(time.RFC3339), seconds(wait))
		} else {
			e.next("The next Job may be created now: the pause ended at %s.", until.UTC().Format(time.RFC3339))
		}
	}
	for _, queue := range e.queues {
		if queue.SortedSet != nil && queue.SortedSet.Window == scaledjobv1.WindowDue {
			e.next("When the next delayed message in %s becomes due.", queue.Name)
		}
	}
	if wait := e.sj.Spec.MaxWait(); wait > 0 {
		e.next("When messages have waited for %s (maxWaitSeconds).", seconds(wait))
	}
	if e.policy.Strategy.CountsClaimed() && e.is.Jobs.Ready > e.is.Jobs.Claimed {
		e.next("When a Job has been ready for %s (claimGraceSeconds).", seconds(e.sj.Spec.ScalingStrategy.ClaimGrace()))
	}
}

// seconds returns a duration in whole seconds, rounded up.
func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds())) }

// summary is the answer in one sentence.
func (e *explainer) summary() string {
	active := int64(e.is.Jobs.Active)
	if e.is.Outstanding == nil || e.is.Desired == nil {
		return fmt.Sprintf("%s active; the depth of the queue is not known.", jobsAre(active))
	}
	text := fmt.Sprintf("%s active and %d desired, for %s outstanding", jobsAre(active), *e.is.Desired, plural(*e.is.Outstanding, "message"))
	if limited := e.has(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue); limited != nil {
		return fmt.Sprintf("%s: %s.", text, cmp.Or(reasons[limited.Reason], limited.Reason))
	}
	if e.sj.Spec.Suspend {
		text += ": " + reasons[scaledjobv1.ReasonSuspended]
	}
	return text + "."
}

func jobsAre(n int64) string {
	if n == 1 {
		return "1 Job is"
	}
	return fmt.Sprintf("%d Jobs are", n)
}

// reasons are the reasons of ScalingLimited in a few words.
var reasons = map[string]string{
	scaledjobv1.ReasonAtMaxReplicas:    "more are due than maxReplicas allows",
	scaledjobv1.ReasonAtMaxPending:     "as many as maxPendingReplicas allows have no ready Pod",
	scaledjobv1.ReasonJobsFailing:      "the last Jobs have failed, so single ones are created",
	scaledjobv1.ReasonNoProgress:       "Jobs end and no message leaves, so single ones are created",
	scaledjobv1.ReasonMessagesOrphaned: "messages are in progress that no Job holds",
	scaledjobv1.ReasonCreateRefused:    "the API server refuses the Jobs",
	scaledjobv1.ReasonCreateFailing:    "the API server can't create the Jobs",
	scaledjobv1.ReasonJobsSuspended:    "all active Jobs are suspended",
	scaledjobv1.ReasonJobsNotStarting:  "Jobs do not start",
	scaledjobv1.ReasonSuspended:        "spec.suspend is true",
}
