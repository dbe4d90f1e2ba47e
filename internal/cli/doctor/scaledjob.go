// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
)

// maxText is the length up to which texts of others are repeated, in bytes.
const maxText = 1024

// oneLine returns a text of others on one line.
func oneLine(text string) string { return layout.Shorten(text, maxText) }

func conditions(f *Facts) []Finding {
	sj := f.ScaledJob
	if len(sj.Status.Conditions) == 0 {
		return []Finding{{
			Error, "The operator has not reported anything about the ScaledJob.",
			"Check that the operator runs, and that it watches the namespace.",
		}}
	}
	var found []Finding
	if sj.Status.ObservedGeneration != sj.Generation {
		found = append(found, Finding{
			Warning, "The operator has not reported anything since the last edit of the spec.", "Wait some seconds. Then check that the operator runs.",
		})
	}
	for i := range sj.Status.Conditions {
		is := &sj.Status.Conditions[i]
		level := severity(sj, is)
		if level == OK || slices.ContainsFunc(found, func(known Finding) bool { return strings.HasSuffix(known.Message, is.Message) }) {
			continue
		}
		found = append(found, Finding{
			level, fmt.Sprintf("%s is %s (%s): %s", is.Type, is.Status, is.Reason, is.Message),
			"docs/operations/troubleshooting.md#" + strings.ToLower(is.Reason) + " says what to do.",
		})
	}
	return append(found, standstill(sj)...)
}

// isOnlyPolled reports whether the operator polls although the spec asks for more. Tracking is as good as
// notifications, also before the first change that Redis reports.
func isOnlyPolled(sj *scaledjobv1.ScaledJob, notifications *metav1.Condition) bool {
	return notifications.Status == metav1.ConditionFalse && notifications.Reason != scaledjobv1.ReasonDisabled &&
		sj.Status.Mode == scaledjobv1.ModePolling && !strings.Contains(notifications.Message, report.Tracks)
}

// severity returns how bad a condition is.
func severity(sj *scaledjobv1.ScaledJob, is *metav1.Condition) Level {
	switch {
	case is.Type == scaledjobv1.ConditionScalingLimited:
		// That the spec sets limits is no fault.
		own := []string{scaledjobv1.ReasonAtMaxReplicas, scaledjobv1.ReasonAtMaxPending, scaledjobv1.ReasonSuspended}
		if is.Status == metav1.ConditionTrue && !slices.Contains(own, is.Reason) {
			return Warning
		}
	case is.Type == scaledjobv1.ConditionReconciling, is.Type == scaledjobv1.ConditionStalled:
		// Ready says the same.
	case is.Type == scaledjobv1.ConditionNotificationsActive:
		if isOnlyPolled(sj, is) {
			return Warning
		}
	case is.Status == metav1.ConditionFalse:
		return Error
	case is.Type == scaledjobv1.ConditionReady && is.Status == metav1.ConditionUnknown:
		return Warning
	}
	return OK
}

// standstill says that the spec itself asks for no Jobs.
func standstill(sj *scaledjobv1.ScaledJob) []Finding {
	switch {
	case sj.Spec.Suspend:
		return []Finding{{
			Warning, "spec.suspend is true, so no Jobs are created.",
			fmt.Sprintf("kubectl scaledjob resume %s --namespace=%s", sj.Name, sj.Namespace),
		}}
	case sj.Spec.MaxReplicasOrDefault() == 0:
		return []Finding{{Warning, "spec.maxReplicas is 0, so no Jobs are created.", "Raise spec.maxReplicas."}}
	}
	return nil
}

// JobOf returns the Job of a dry run, as the operator would create it.
func JobOf(sj *scaledjobv1.ScaledJob) *batchv1.Job { return jobs.Build(sj, "", jobs.DryRunOrdinal, 0) }

// PodOf returns a Pod as Kubernetes would create it for a Job.
func PodOf(job *batchv1.Job) *corev1.Pod {
	template := job.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, GenerateName: job.Name + "-", Labels: template.Labels, Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
}

func jobAccepted(f *Facts) []Finding {
	const fix = "Correct spec.jobTemplate, or what the answer names."
	switch is := report.Checked(f.Job.Err, nil); is.Status {
	case metav1.ConditionFalse:
		return []Finding{{Error, is.Message, fix}}
	case metav1.ConditionUnknown:
		return []Finding{{Warning, "The API server did not accept a Job now: " + oneLine(f.Job.Err.Error()), "If it is a quota, see below. Otherwise try again."}}
	}
	return warned("Job", f.Job.Warnings)
}

// warned has the warnings of the API server.
func warned(what string, warnings []string) []Finding {
	found := make([]Finding, len(warnings))
	for i, each := range warnings {
		found[i] = Finding{Warning, "The API server warns about the " + what + ": " + oneLine(each), cure(each)}
	}
	return found
}

func podAccepted(f *Facts) []Finding {
	if f.Pod.Err == nil {
		return nil // What it warns about, it warned about at the Job.
	}
	text := oneLine(f.Pod.Err.Error())
	if strings.Contains(text, "exceeded quota") {
		return []Finding{{Warning, "A quota leaves no room for a Pod now: " + text, cure(text)}}
	}
	return []Finding{{Error, "The API server rejects the Pods of the Jobs: " + text, cure(text)}}
}

// cure says what to do about an answer of the API server.
func cure(text string) string {
	for _, each := range []struct{ words, cure string }{
		{"PodSecurity", "Set in the securityContext of the Pod and its containers what the answer lists, or choose another level for the namespace."},
		{"service account", "Create the ServiceAccount, or set serviceAccountName in spec.jobTemplate."},
		{"exceeded quota", "Raise the quota, or delete objects that use it. Finished Pods may count too."},
		{"must specify", "Set these requests and limits in spec.jobTemplate, or defaults for the namespace with a LimitRange."},
		{"PriorityClass", "Create the PriorityClass, or name another one in spec.jobTemplate."},
		{"denied the request", "Change spec.jobTemplate so that the webhook allows it, or change the webhook."},
	} {
		if strings.Contains(text, each.words) {
			return each.cure
		}
	}
	return "Correct spec.jobTemplate, or what the answer names."
}

func quotas(f *Facts) []Finding {
	var found []Finding
	for _, each := range explain.UsedUp(f.Quotas) {
		if slices.ContainsFunc([]string{"jobs", "pods", "cpu", "memory"}, func(word string) bool { return strings.Contains(each.Message, word) }) {
			found = append(found, Finding{
				Warning, each.Message, "Raise the quota, or delete objects that use it. Finished Jobs go with spec.successfulJobsHistoryLimit and failedJobsHistoryLimit.",
			})
		}
	}
	return found
}

// failing are the reasons for which a container does not start, and what to do about them.
var failing = map[string]string{
	"ErrImagePull":               imageFix,
	"ImagePullBackOff":           imageFix,
	"InvalidImageName":           "Correct the image in spec.jobTemplate.",
	"ErrImageNeverPull":          "Load the image on the node, or set imagePullPolicy to IfNotPresent.",
	"CreateContainerConfigError": "Create what the message names: a Secret, a ConfigMap or a key.",
	"CreateContainerError":       "Correct the container in spec.jobTemplate, as the message says.",
	"RunContainerError":          "Correct the command of the container in spec.jobTemplate.",
	"CrashLoopBackOff":           "See the log of the container: kubectl logs --previous",
}

const imageFix = "Check the name and the tag of the image, that the node reaches the registry, and imagePullSecrets."

// pods are the newest first, and each problem is said once.
func pods(f *Facts) []Finding {
	var found []Finding
	add := func(is Finding) {
		if !slices.ContainsFunc(found, func(known Finding) bool { return known.Message == is.Message }) {
			found = append(found, is)
		}
	}
	for _, pod := range f.Pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if waits := container.State.Waiting; waits != nil && failing[waits.Reason] != "" {
				add(Finding{
					Error, fmt.Sprintf("Pods do not start: %s, container %s with image %s: %s", waits.Reason, container.Name, container.Image, oneLine(waits.Message)),
					failing[waits.Reason],
				})
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
				add(Finding{
					Warning, "No node takes the Pods now: " + oneLine(condition.Message), "Add nodes, or lower the requests in spec.jobTemplate. See also spec.maxPendingReplicas.",
				})
			}
		}
	}
	return found
}

const (
	// endless is how long a worker may run while its queue is empty, and alone how long a container may go on after
	// another one of its Pod has ended.
	endless = time.Hour
	alone   = time.Minute

	endFix = "A Job that has done its work must end: make sidecars init containers with restartPolicy: Always, end the worker when the " +
		"queue is empty, or set activeDeadlineSeconds in spec.jobTemplate."
)

func workersEnd(f *Facts) []Finding {
	for _, pod := range f.Pods {
		if ended, running := halves(pod, f.Now); ended != "" && running != "" {
			return []Finding{{
				Error, fmt.Sprintf("In Pod %s the container %s has ended, and %s goes on, so that the Job does not end.", pod.Name, ended, running), endFix,
			}}
		}
	}
	depth, without := f.ScaledJob.Status.QueueDepth, 0
	for _, job := range jobs.Classify(f.Jobs, f.ScaledJob.UID).Active {
		if jobs.Ready(job) && job.Status.StartTime != nil && f.Now.Sub(job.Status.StartTime.Time) > endless && job.Spec.ActiveDeadlineSeconds == nil {
			without++
		}
	}
	if depth == nil || *depth > 0 || without <= int(f.ScaledJob.Spec.MinReplicas+f.ScaledJob.Spec.SpareReplicas) {
		return nil
	}
	return []Finding{{
		Warning, fmt.Sprintf("The queue is empty, and %d Jobs have run for more than an hour. If they wait for messages, they never end.", without), endFix,
	}}
}

// halves returns a container that ended some time ago and one that goes on; empty if there is none. Only containers
// that are not init containers have to end.
func halves(pod *corev1.Pod, now time.Time) (ended, running string) {
	for _, container := range pod.Status.ContainerStatuses {
		switch state := container.State; {
		case state.Terminated != nil && now.Sub(state.Terminated.FinishedAt.Time) > alone:
			ended = container.Name
		case state.Running != nil:
			running = container.Name
		}
	}
	return ended, running
}

// place is where the messages of a queue are.
type place struct {
	addresses string
	database  int32
	key       string
	group     string
}

// placesOf returns where the waiting messages of a ScaledJob are.
func placesOf(sj *scaledjobv1.ScaledJob) []place {
	server := place{addresses: sj.Spec.RedisAddress}
	if redis := sj.Spec.Redis; redis != nil {
		addresses := slices.Sorted(slices.Values(redis.Addresses))
		server = place{addresses: strings.Join(slices.Compact(addresses), ","), database: redis.Database}
	}
	var all []place
	for _, queue := range sj.Spec.AllQueues() {
		if queue.Role == scaledjobv1.RoleWaiting {
			is := server
			is.key = queue.Name
			if queue.Stream != nil {
				is.group = queue.Stream.ConsumerGroup
			}
			all = append(all, is)
		}
	}
	return all
}

func sharedKeys(f *Facts) []Finding {
	var found []Finding
	for _, own := range placesOf(f.ScaledJob) {
		if names := f.sharing(own); len(names) > 0 {
			found = append(found, Finding{
				Warning, fmt.Sprintf("The messages of %q also count for %s, so each of them gets several Jobs.", own.key, some(names)),
				"Remove all but one of these ScaledJobs, or give each its own key. Streams may be shared with a consumer group each.",
			})
		}
	}
	return found
}

// sharing returns the other ScaledJobs that count the same messages.
func (f *Facts) sharing(own place) []string {
	// A short address means something else in another namespace.
	everywhere := strings.Contains(own.addresses, ".")
	var names []string
	for i := range f.Others {
		if other := &f.Others[i]; (everywhere || other.Namespace == f.Namespace) && slices.Contains(placesOf(other), own) {
			names = append(names, other.Namespace+"/"+other.Name)
		}
	}
	return names
}

// most is the number of names that a text has at most.
const most = 5

// some returns the first names, and the number of the others.
func some(names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// KEDA is a scaler of KEDA.
type KEDA struct {
	Kind, Name string
	Paused     bool
	// Keys are the keys of its Redis triggers.
	Keys []string
}

func kedaLeavesKeys(f *Facts) []Finding {
	var found []Finding
	for _, each := range f.KEDA {
		for _, own := range placesOf(f.ScaledJob) {
			if !each.Paused && slices.Contains(each.Keys, own.key) {
				found = append(found, Finding{
					Warning, fmt.Sprintf("The %s %s of KEDA scales by a key with the same name, %q.", each.Kind, each.Name, own.key),
					"If it is the same server, pause it: kubectl annotate " + strings.ToLower(each.Kind) + ".keda.sh " + each.Name +
						" --namespace=" + f.Namespace + " autoscaling.keda.sh/paused=true",
				})
			}
		}
	}
	return found
}

// Newest sorts Pods, the newest first.
func Newest(all []*corev1.Pod) {
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}
