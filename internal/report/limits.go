// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Limit returns why scaling is limited according to the status, and since when.
func Limit(status *scaledjobv1.ScaledJobStatus) (why scaling.PauseReason, since time.Time) {
	if limited := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionScalingLimited); limited != nil {
		return scaling.PauseReason(limited.Reason), limited.LastTransitionTime.Time
	}
	return scaling.NotPaused, time.Time{}
}

// Pausing reports whether creation is paused according to the status.
func Pausing(status *scaledjobv1.ScaledJobStatus) bool {
	why, _ := Limit(status)
	return why == scaling.CreateRefused || pauses[why] != ""
}

// aboutCreates reports whether a reason of ScalingLimited is an answer of the API server to creates.
func aboutCreates(reason string) bool {
	return reason == scaledjobv1.ReasonCreateRefused || reason == scaledjobv1.ReasonCreateFailing
}

// FailuresBefore returns the number of failed creates from which a restarted operator counts on: one less than those from
// which on Ready is False, if it is because of them. So the next failure continues them.
func FailuresBefore(status *scaledjobv1.ScaledJobStatus) int {
	is := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionReady)
	if is != nil && is.Status == metav1.ConditionFalse && aboutCreates(is.Reason) {
		return manyFailures - 1
	}
	return 0
}

// scalingLimited returns why fewer Jobs are created than are due.
func scalingLimited(spec *scaledjobv1.ScaledJobSpec, seen *Reconciled) Condition {
	switch {
	case spec.Suspend && seen.Due:
		return limited(scaledjobv1.ReasonSuspended, "Jobs are due, and spec.suspend is true. To create them, set it to false.")
	case pauses[seen.Limit] != "":
		return limited(string(seen.Limit), pauses[seen.Limit])
	case seen.Limit == scaling.CreateRefused:
		return limited(scaledjobv1.ReasonCreateRefused, refused(seen.Answer))
	case seen.Due && seen.Failures > 0:
		return limited(scaledjobv1.ReasonCreateFailing, failing(seen.Answer))
	case seen.Waiting:
		return limited(scaledjobv1.ReasonCreatesWaiting,
			"Jobs are due, and the operator creates them when other requests to the API server have ended. Many "+
				"requests are slow, usually because of admission webhooks: check those for Jobs in this namespace. If they are "+
				"well, those of other namespaces may be slow, or the API server. A template larger than 16 KiB also waits for "+
				"other such templates.")
	case seen.AtMax:
		return limited(scaledjobv1.ReasonAtMaxReplicas,
			"More Jobs are due than spec.maxReplicas allows. Raise it to process the queue faster.")
	}
	return Condition{metav1.ConditionFalse, scaledjobv1.ReasonNotLimited, notLimited(spec, seen)}
}

func limited(reason, message string) Condition {
	return Condition{metav1.ConditionTrue, reason, message}
}

// notLimited says why no Job is due although messages are outstanding, or that none is held back.
func notLimited(spec *scaledjobv1.ScaledJobSpec, seen *Reconciled) string {
	if depth := seen.Depth; depth != nil && *depth > 0 && *depth <= spec.ActivationThreshold && *seen.Desired == 0 {
		return "Messages are outstanding, but no more than spec.activationThreshold. No Job is due until there are more."
	}
	return "No Job is held back."
}

// resume tells users how to end a pause immediately.
const resume = " To resume at once, edit spec.jobTemplate, or set spec.suspend to true and back to false."

// pauses are the messages of ScalingLimited while creation is paused because of how Jobs end.
var pauses = map[scaling.PauseReason]string{
	scaling.JobsFailing: "The last Jobs to finish have all failed. Until a Job succeeds and messages leave the " +
		"queue, the operator repeatedly pauses Job creation, for up to five minutes each time. Find the cause with " +
		"kubectl logs --selector=batch.miracle.dev/scaledjob=NAME, and correct the workers or spec.jobTemplate." +
		resume,
	scaling.NoProgress: "Jobs finish, but no message leaves the queue. Until that changes, the operator repeatedly " +
		"pauses Job creation, for up to five minutes each time. Check that the workers take messages from this key " +
		"on this server, and that they take over the messages of workers that died." + resume,
}

// mayNotCreate tells administrators to give the operator its permissions.
const mayNotCreate = "The operator may not create Jobs in this namespace. Let its ServiceAccount create jobs of the API " +
	"group batch there, as the Role that is installed with the operator does."

// cures say what to do about a refusal.
var cures = map[admission.By]string{
	admission.ByWebhook: "Change spec.jobTemplate so that the webhook allows it, or change the webhook.",
	admission.ByPolicy:  "Change spec.jobTemplate so that the policy allows it, or change the policy.",
	admission.ByQuota:   "Raise the quota, or delete what uses it.",
	admission.ByServer:  "Correct spec.jobTemplate, or what the answer names.",
}

// refused returns the message for an answer with which the API server refuses Jobs.
func refused(answer admission.Answer) string {
	const again = " The operator tries again when a Job finishes or is deleted, and otherwise at growing intervals of up " +
		"to five minutes. To try at once, set spec.suspend to true and back to false."
	if answer.By == admission.ByPermissions {
		return mayNotCreate + again
	}
	return "The API server refuses to create a Job" + said(answer) + cures[answer.By] + again
}

// failing returns the message for creates that the API server could not carry out, or did not answer.
func failing(answer admission.Answer) string {
	const again = " The operator tries again at growing intervals."
	switch {
	case answer.By == admission.ByWebhook:
		return "An admission webhook keeps Jobs from being created" + said(answer) +
			"Check the webhook, and the network between the API server and it." + again
	case answer.Text == "":
		return "The API server did not answer when the operator created a Job. Often an admission webhook for Jobs is slow, or the " +
			"API server is overloaded." + again
	}
	return "The API server could not create a Job" + said(answer) + "See the log of the API server." + again
}

// said returns the words of the API server, as the end of a sentence.
func said(answer admission.Answer) string {
	if answer.Text == "" {
		return ". "
	}
	return ": " + strings.TrimRight(answer.Text, ". ") + ". "
}
