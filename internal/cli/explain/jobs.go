// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Jobs are the Jobs by state.
type Jobs struct {
	// Source is Jobs if they were counted now, and status if the status was taken because they can't be read.
	Source string `json:"source"`
	// Active are the unfinished Jobs. Each of them is Ready, or Pending, of which Suspended are suspended. Terminating are
	// those that are being deleted.
	Active      int `json:"active"`
	Ready       int `json:"ready"`
	Pending     int `json:"pending"`
	Suspended   int `json:"suspended"`
	Terminating int `json:"terminating"`
	// Claimed are those that count as having taken their messages, for the strategies Accurate and Custom, if Pods can be
	// read.
	Claimed int `json:"claimed,omitempty"`
	// Succeeded and Failed are those that still exist.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Waiting says what pending Jobs wait for.
	Waiting []Waiting `json:"waiting"`
}

// Waiting is something that Jobs wait for.
type Waiting struct {
	// Jobs is how many Jobs wait for it; 0 if that is not known.
	Jobs int `json:"jobs,omitempty"`
	// Reason is the reason that Kubernetes gives, and Message one of its messages.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Where the numbers of Jobs come from.
const (
	sourceJobs   = "jobs"
	sourceStatus = "status"
)

// countJobs counts the Jobs, or takes the numbers of the status.
func (e *explainer) countJobs() Jobs {
	status := &e.sj.Status
	claimed := 0
	if status.ClaimedJobs != nil {
		claimed = int(*status.ClaimedJobs)
	}
	if !e.facts.JobsKnown {
		return Jobs{
			Claimed: claimed,
			Source:  sourceStatus, Active: int(status.ActiveJobs), Pending: int(status.PendingJobs), Suspended: int(status.SuspendedJobs),
			Ready: int(status.ActiveJobs - status.PendingJobs), Succeeded: int(status.SucceededJobs), Failed: int(status.FailedJobs),
			Waiting: []Waiting{},
		}
	}
	found := Jobs{
		Source: sourceJobs, Active: len(e.owned.Active), Pending: e.owned.Pending(), Suspended: e.owned.Suspended(),
		Succeeded: len(e.owned.Succeeded), Failed: len(e.owned.Failed),
	}
	found.Ready = found.Active - found.Pending
	for _, job := range e.owned.Active {
		if job.DeletionTimestamp != nil {
			found.Terminating++
		}
		if scaling.Strategy(e.sj.Spec.ScalingStrategy.Type).CountsClaimed() && e.hasClaimed(job) {
			found.Claimed++
		}
	}
	if !e.facts.PodsKnown {
		found.Claimed = min(claimed, found.Ready)
	}
	found.Waiting = e.waiting()
	return found
}

// hasClaimed reports whether the Job counts as having taken its messages: whether a Pod of it has been ready for long.
func (e *explainer) hasClaimed(job *batchv1.Job) bool {
	grace := e.sj.Spec.ScalingStrategy.ClaimGrace()
	return jobs.Ready(job) && slices.ContainsFunc(e.podsOf(job), func(pod *corev1.Pod) bool {
		ready := condition(pod, corev1.PodReady)
		return ready != nil && ready.Status == corev1.ConditionTrue && e.facts.Now.Sub(ready.LastTransitionTime.Time) >= grace
	})
}

func (e *explainer) podsOf(job *batchv1.Job) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range e.facts.Pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.UID == job.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// waiting returns what the pending Jobs wait for, the most frequent first, and the quotas that are used up.
func (e *explainer) waiting() []Waiting {
	found := map[string]*Waiting{}
	for _, job := range e.owned.Active {
		if jobs.Ready(job) {
			continue
		}
		reason, message := e.reasonOf(job)
		if found[reason] == nil {
			found[reason] = &Waiting{Reason: reason, Message: layout.Shorten(message, maxMessage)}
		}
		found[reason].Jobs++
	}
	all := []Waiting{}
	for _, each := range found {
		all = append(all, *each)
	}
	slices.SortFunc(all, func(a, b Waiting) int { return cmp.Or(b.Jobs-a.Jobs, strings.Compare(a.Reason, b.Reason)) })
	return append(all, UsedUp(e.facts.Quotas)...)
}

// reasonOf returns why a Job has no ready Pod.
func (e *explainer) reasonOf(job *batchv1.Job) (reason, message string) {
	if job.DeletionTimestamp != nil {
		return "Terminating", "The Job is being deleted; finalizers: " + orNone(job.Finalizers) + "."
	}
	if jobs.Suspended(job) {
		return e.suspension(job)
	}
	pods := e.podsOf(job)
	if len(pods) == 0 {
		return e.withoutPod(job)
	}
	for _, pod := range slices.Backward(pods) {
		if reason, message = podReason(pod); reason != "" {
			return reason, message
		}
	}
	return "PodsEnded", "All Pods of the Job have ended, and Kubernetes has not finished the Job yet."
}

// suspension returns why a Job is suspended.
func (e *explainer) suspension(job *batchv1.Job) (reason, message string) {
	for _, workload := range e.facts.Workloads {
		if workload.Job == job.Name && workload.Message != "" {
			return "Suspended", "Kueue: " + workload.Message
		}
	}
	if e.sj.Spec.JobTemplate != nil && e.sj.Spec.JobTemplate.Spec.Suspend != nil && *e.sj.Spec.JobTemplate.Spec.Suspend {
		return "Suspended", "spec.jobTemplate sets suspend, and no controller has changed that in the Job."
	}
	return "Suspended", "A controller, or somebody, has suspended the Job."
}

// withoutPod returns what the events say about a Job without Pods.
func (e *explainer) withoutPod(job *batchv1.Job) (reason, message string) {
	var newest *corev1.Event
	for i := range e.facts.Events {
		event := &e.facts.Events[i]
		if event.InvolvedObject.UID == job.UID && (newest == nil || at(event).After(at(newest))) {
			newest = event
		}
	}
	switch {
	case newest != nil:
		return newest.Reason, newest.Message
	case !e.facts.PodsKnown:
		return "Pending", "Its Pods can't be read."
	}
	return "NoPod", "The Job has no Pod yet."
}

// at is when an event last happened.
func at(event *corev1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	if !event.LastTimestamp.IsZero() {
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}

// podReason returns why a Pod is not ready; empty if it has ended.
func podReason(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return "", ""
	}
	if pod.DeletionTimestamp != nil {
		return "Terminating", "Its Pod is being deleted."
	}
	if placed := condition(pod, corev1.PodScheduled); placed != nil && placed.Status == corev1.ConditionFalse {
		return placed.Reason, placed.Message
	}
	var starting *corev1.ContainerStateWaiting
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waits := container.State.Waiting
		if waits == nil {
			continue
		}
		if waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing" {
			return waits.Reason, fmt.Sprintf("Container %s: %s", container.Name, waits.Message)
		}
		starting = waits
	}
	switch {
	case starting != nil:
		return starting.Reason, starting.Message
	case pod.Status.Phase == corev1.PodRunning:
		return "NotReady", "The containers run, and a readiness probe has not succeeded."
	}
	return "Pending", ""
}

// UsedUp returns the quotas that have no room left.
func UsedUp(quotas []corev1.ResourceQuota) []Waiting {
	var found []Waiting
	for i := range quotas {
		quota := &quotas[i]
		for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
			hard, used := quota.Status.Hard[name], quota.Status.Used[name]
			if used.Cmp(hard) >= 0 {
				found = append(found, Waiting{
					Reason: "QuotaUsedUp", Message: fmt.Sprintf("ResourceQuota %s: %s of %s %s are used.", quota.Name, used.String(), hard.String(), name),
				})
			}
		}
	}
	return found
}

// maxMessage is the length up to which a message of Kubernetes is repeated.
const maxMessage = 400

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
