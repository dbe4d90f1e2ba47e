// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Limit returns why scaling is limited according to the status.
func Limit(status *scaledjobv1.ScaledJobStatus) scaling.PauseReason {
	if limited := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionScalingLimited); limited != nil {
		return scaling.PauseReason(limited.Reason)
	}
	return scaling.NotPaused
}

// PausedUntil returns when the next Job may be created according to the status; zero if creation is not paused.
func PausedUntil(status *scaledjobv1.ScaledJobStatus) time.Time {
	if status.CreationPausedUntil == nil {
		return time.Time{}
	}
	return status.CreationPausedUntil.Time
}

// Pausing reports whether creation is paused according to the status.
func Pausing(status *scaledjobv1.ScaledJobStatus) bool {
	why := Limit(status)
	return why == scaling.CreateRefused || why == scaling.JobsFailing || why == scaling.NoProgress
}

// aboutCreates reports whether a reason of ScalingLimited is an answer of the API server to creates.
func aboutCreates(reason string) bool {
	return reason == scaledjobv1.ReasonCreateRefused || reason == scaledjobv1.ReasonCreateFailing
}

// FailuresBefore returns the number of failed creates from which a restarted operator counts on: one less than those
// from which on Ready is False, if it is because of them. So the next failure continues them.
func FailuresBefore(status *scaledjobv1.ScaledJobStatus) int {
	is := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionReady)
	if is != nil && is.Status == metav1.ConditionFalse && aboutCreates(is.Reason) {
		return manyFailures - 1
	}
	return 0
}

// scalingLimited returns why fewer Jobs are created, or run, than are due.
func scalingLimited(sj *scaledjobv1.ScaledJob, seen *Reconciled) Condition {
	if is, held := held(sj, seen); held {
		return is
	}
	switch {
	case seen.unadmitted():
		return limited(scaledjobv1.ReasonJobsSuspended, suspended(sj, seen))
	case seen.lacksJobs():
		return limited(scaledjobv1.ReasonJobsNotStarting, notStarting(sj, seen))
	case seen.AtMaxPending:
		return limited(scaledjobv1.ReasonAtMaxPending, "Jobs are due, and as many active Jobs as spec.maxPendingReplicas allows have no "+
			"ready Pod. The next Job is created as soon as one of them becomes ready or ends. If nodes are free, raise "+
			"spec.maxPendingReplicas. To see what the Pods wait for: "+describe(sj, "pods")+".")
	case seen.AtMax:
		return limited(scaledjobv1.ReasonAtMaxReplicas, "More Jobs are due than spec.maxReplicas allows. "+raise(sj, seen))
	}
	return Condition{metav1.ConditionFalse, scaledjobv1.ReasonNotLimited, notLimited(sj, seen)}
}

// held returns why the operator creates no Jobs, or fewer than its limits allow; false if it does.
func held(sj *scaledjobv1.ScaledJob, seen *Reconciled) (Condition, bool) {
	switch {
	case sj.Spec.Suspend && seen.Due:
		return limited(scaledjobv1.ReasonSuspended, "Jobs are due, and spec.suspend is true. To create them, set it to false."), true
	case seen.Limit == scaling.JobsFailing || seen.Limit == scaling.NoProgress:
		return limited(string(seen.Limit), paused(seen)), true
	case seen.Limit == scaling.CreateRefused:
		return limited(scaledjobv1.ReasonCreateRefused, refused(seen.Answer)), true
	case seen.Due && seen.Failures > 0:
		return limited(scaledjobv1.ReasonCreateFailing, failing(seen.Answer)), true
	case seen.orphansLimit():
		return limited(string(seen.Limit), orphaned(seen.Orphans)), true
	}
	return Condition{}, false
}

// unadmitted reports whether messages are outstanding, and all active Jobs wait for their admission.
func (r *Reconciled) unadmitted() bool {
	return r.Unadmitted && r.Created == 0 && r.Depth != nil && *r.Depth > 0
}

// orphansLimit reports whether fewer Jobs are created than are due because messages are orphaned.
func (r *Reconciled) orphansLimit() bool {
	return r.Limit == scaling.MessagesOrphaned && (r.Due || r.Orphans.Probed)
}

// raise returns what users can do if maxReplicas limits scaling.
func raise(sj *scaledjobv1.ScaledJob, seen *Reconciled) string {
	if seen.NotReady.Unended > 0 {
		return notEnding(sj)
	}
	if seen.Jobs.Suspended() > 0 {
		return "Active Jobs are suspended and wait for their admission, for example by Kueue; more Jobs would wait as well."
	}
	return "Raise it to process the queue faster."
}

func limited(reason, message string) Condition {
	return Condition{metav1.ConditionTrue, reason, message}
}

// notLimited says why no Job is due although messages are outstanding, or that none is held back.
func notLimited(sj *scaledjobv1.ScaledJob, seen *Reconciled) string {
	const noneHeld = "No Job is held back."
	if seen.Depth == nil {
		return noneHeld
	}
	depth, noneDue := *seen.Depth, *seen.Desired == 0
	switch {
	case noneDue && depth == 0:
		return "No message is outstanding. If you expect messages, check the names of the keys, the database and the address."
	case depth > 0 && !seen.Due && (seen.NotReady.Unended > 0 || seen.Still):
		return "As many Jobs are unfinished as are due. " + notEnding(sj)
	case depth > 0 && depth <= sj.Spec.ActivationThreshold && !seen.Overdue && !seen.Due:
		return notActivated(sj)
	}
	return noneHeld
}

// notActivated says when messages that do not exceed activationThreshold get Jobs.
func notActivated(sj *scaledjobv1.ScaledJob) string {
	text := "The depth of the queue does not exceed spec.activationThreshold. The operator creates no Jobs for it until it does"
	if sj.Spec.MaxWait() > 0 {
		return text + ", or until messages have waited for spec.maxWaitSeconds."
	}
	return text + ". To bound the time that messages wait, set spec.maxWaitSeconds."
}

// notEnding is for Jobs that count for messages and, probably, do nothing for them.
func notEnding(sj *scaledjobv1.ScaledJob) string {
	text := "Some Jobs have no ready Pod any more, or no message has left the queue for ten minutes or longer. If containers crash, see " +
		"their logs. A Job that has done its work must end: make sidecars init containers with restartPolicy: Always, or set " +
		"activeDeadlineSeconds in spec.jobTemplate."
	if strategy := scaling.Strategy(sj.Spec.ScalingStrategy.Type); !strategy.CountsClaimed() {
		text += " If each Job works on a message for long after it has taken it, set spec.scalingStrategy.type to Accurate, so that the " +
			"next message gets a Job of its own."
	}
	return text
}

// suspended says that all active Jobs are suspended, and what may be the cause.
func suspended(sj *scaledjobv1.ScaledJob, seen *Reconciled) string {
	return fmt.Sprintf("Messages are outstanding, and all %d active Jobs are suspended, so that none runs. They start when suspend in "+
		"spec.jobTemplate, or the controller that admits them, lets them. With Kueue, see why with: kubectl describe workloads "+
		"--namespace=%s. Common causes are a quota that is used up, a LocalQueue that does not exist, a Workload that was "+
		"deactivated (delete its Job to get another one), and a managedBy in spec.jobTemplate for which no controller runs.",
		len(seen.Jobs.Active), sj.Namespace)
}

// lacksJobs reports whether Jobs that do not start, or are being deleted for long, take the places of Jobs that are
// due.
func (r *Reconciled) lacksJobs() bool {
	stuck := r.NotReady.Unstarted + r.NotReady.Terminating
	return r.Desired != nil && stuck > 0 && int(*r.Desired) > len(r.Jobs.Active)+r.Created-stuck
}

// notStarting says how many Jobs have not started, and what can be known of the cause.
func notStarting(sj *scaledjobv1.ScaledJob, seen *Reconciled) string {
	jobs, total := seen.NotReady, len(seen.Jobs.Active)+seen.Created
	text := fmt.Sprintf("Unfinished Jobs without a ready Pod for a minute or longer: %d of %d.", jobs.Unstarted+jobs.Terminating, total)
	if jobs.Outdated > 0 {
		text += fmt.Sprintf(" Made from an earlier template: %d. They count as active until they end. Delete them", jobs.Outdated)
		if strategy := sj.Spec.Rollout.Strategy; strategy != scaledjobv1.RolloutUnstarted && strategy != scaledjobv1.RolloutImmediate {
			text += ", or set spec.rollout.strategy to Unstarted, which replaces Jobs that have never had a ready Pod"
		}
		text += "."
	}
	if jobs.WithoutPod > 0 {
		text += fmt.Sprintf(" Without any Pod: %d. Common causes are PodSecurity, a LimitRange, a quota for Pods (finished Jobs keep theirs), a "+
			"missing ServiceAccount, and a managedBy in spec.jobTemplate for which no controller runs; the events of the Jobs name it: %s.", jobs.WithoutPod, describe(sj, "jobs"))
	}
	if jobs.Suspended > 0 {
		text += fmt.Sprintf(" Suspended: %d. They start when suspend in spec.jobTemplate, or the controller that suspended them, such as "+
			"Kueue, lets them.", jobs.Suspended)
	}
	if waiting := jobs.Unstarted - jobs.WithoutPod - jobs.Suspended; waiting > 0 {
		text += fmt.Sprintf(" With a Pod that is not ready: %d. Common causes are an image that can't be pulled, no node that fits, a "+
			"container that crashes, and a readiness probe that fails; the Pods name it: %s.", waiting, describe(sj, "pods"))
	}
	if jobs.Terminating > 0 {
		text += fmt.Sprintf(" Being deleted for a minute or longer: %d. A finalizer, or a Pod on a node that does not answer, keeps "+
			"them: %s.", jobs.Terminating, describe(sj, "jobs"))
	}
	return text
}

// describe returns the command that shows the events of the Jobs or Pods.
func describe(sj *scaledjobv1.ScaledJob, what string) string {
	return "kubectl describe " + what + " --namespace=" + sj.Namespace + " --selector=" + scaledjobv1.LabelScaledJob + "=" + sj.Name
}

// probing says what happens during a pause, and resume says how to end it immediately.
const (
	probing = " Until a Job succeeds and a message leaves the queue, the operator creates single Jobs: at most four, and one more for " +
		"every 30 seconds that pass. status.creationPausedUntil is when the next one is due; a message that arrives may " +
		"get one earlier."
	resume = " To resume at once, edit spec.jobTemplate, or set spec.suspend to true and back to false; running Jobs go on."
)

// paused returns the message while creation is paused because of how Jobs end.
func paused(seen *Reconciled) string {
	if seen.Limit == scaling.NoProgress && seen.Depth != nil && *seen.Depth == 0 {
		return "The queue is empty, and Jobs of spec.minReplicas or spec.spareReplicas finish instead of waiting for messages." + probing +
			" Let the workers wait longer, or lower these numbers. Without notifications or tracking, workers may have processed messages " +
			"that the operator did not see." + resume
	}
	if seen.Limit == scaling.NoProgress {
		return "Jobs finish, but no message leaves the queue." + probing + " Check that the workers take messages from this key on " +
			"this server, and that they take over the messages of workers that died." + resume
	}
	text := "The last Jobs to finish have all failed"
	if seen.Consumed {
		text += ", and messages have left the queue meanwhile: those of failed Jobs are lost, unless the workers keep them elsewhere"
	}
	return text + "." + probing + " Find the cause with kubectl logs --selector=" + scaledjobv1.LabelScaledJob + "=NAME, and correct " +
		"the workers, the messages or spec.jobTemplate." + resume
}

// orphaned returns the message for messages in progress that no unfinished Job can hold.
func orphaned(found Orphans) string {
	text := "More messages are in progress than the unfinished Jobs can hold"
	cure := "If each Job processes several messages at a time, raise threshold. Otherwise, let the workers take over the messages of workers that died, or move them back to the queue."
	if queue := found.Queue; queue != nil {
		text += fmt.Sprintf(": up to %d in %s", found.Messages, quoted(queue.Name))
		if queue.Stream != nil {
			cure = "If each Job processes several messages at a time, raise threshold. Otherwise, let the workers take over the entries of consumers that died, with XAUTOCLAIM, or acknowledge them with XACK."
		}
	}
	return text + ". Their workers have died, or other programs hold them. The operator creates single Jobs for them, about one " +
		"every 30 seconds, and more as soon as such messages leave. Other messages get their Jobs at once. " + cure
}

// mayNotCreate asks administrators to give the operator its permissions. user is its name in the API server.
func mayNotCreate(user string) string {
	return "The operator, as " + quoted(user) + ", may not create Jobs in this namespace. Let it create jobs of the API group batch " +
		"there, as the Role or ClusterRole does that is installed with the operator."
}

// cures say what to do about a refusal.
var cures = map[admission.By]string{
	admission.ByWebhook: "Change spec.jobTemplate so that the webhook allows it, or change the webhook.",
	admission.ByPolicy:  "Change spec.jobTemplate so that the policy allows it, or change the policy.",
	admission.ByQuota:   "Raise the quota, or delete objects that use it.",
	admission.ByChange:  "Change the webhook or policy that does this.",
	admission.ByServer:  "Correct spec.jobTemplate, or what the answer names.",
}

// refused returns the message for an answer with which the API server refuses Jobs.
func refused(answer admission.Answer) string {
	const again = " The operator tries again when a Job finishes or is deleted, and at least every five minutes. To try at " +
		"once, set spec.suspend to true and back to false; running Jobs go on."
	if answer.By == admission.ByPermissions {
		return mayNotCreate(answer.Name) + again
	}
	if answer.By == admission.ByChange {
		return "A created Job could not be counted" + said(answer) + cures[answer.By] + again
	}
	return "The API server rejects the Job" + said(answer) + cures[answer.By] + again
}

const (
	growing = " The operator tries again, at intervals that grow."
	// unanswered is the message for a create without an answer.
	unanswered = "The API server did not answer when the operator created a Job. Often an admission webhook for Jobs is slow, or the " +
		"API server is overloaded." + growing
)

// failing returns the message for creates that the API server could not carry out, or did not answer.
func failing(answer admission.Answer) string {
	switch {
	case answer.By == admission.ByWebhook:
		return "An admission webhook did not answer, or answered with an error, so that the API server created no Job" + said(answer) +
			"Check the log of the webhook, and that the API server can reach it." + growing
	case answer.Text == "":
		return unanswered
	}
	return "The API server could not create the Job" + said(answer) + "See the log of the API server." + growing
}

// said returns the words of the API server, as the end of a sentence.
func said(answer admission.Answer) string {
	if answer.Text == "" {
		return ". "
	}
	return ": " + strings.TrimRight(answer.Text, ". ") + ". "
}
