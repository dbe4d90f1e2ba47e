// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations of a Pod, thus of the Pod template of a Job, that say what becomes of it. The values are durations as in
// "1.5s". Each can also be set on a Pod that exists: "0s" makes it happen now.
//
// A Pod needs none of them: it is placed on FakeNode, is ready at once, and runs until it is deleted. To keep one
// pending, give it another schedulerName than the default one, or scheduling gates.
const (
	// PodReadyAfter is the time from creation until the Pod runs and is ready.
	PodReadyAfter = "cluster.test/ready-after"
	// PodSucceedAfter is the time from then until it succeeds.
	PodSucceedAfter = "cluster.test/succeed-after"
	// PodFailAfter is the time from then until it fails. It wins over PodSucceedAfter.
	PodFailAfter = "cluster.test/fail-after"
)

// Now makes what the annotation describes happen to a Pod at once. Nothing happens to a Pod that is gone.
func Now(ctx context.Context, kube client.Client, pod *corev1.Pod, annotation string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, annotation))
	if err := client.IgnoreNotFound(kube.Patch(ctx, pod.DeepCopy(), patch)); err != nil {
		return fmt.Errorf("annotating Pod %s: %w", pod.Name, err)
	}
	return nil
}

// step is what a kubelet does next with a Pod.
type step int

const (
	nothing step = iota
	run
	succeed
	fail
	terminate
)

// nextStep returns the next step of a Pod, and how long after the one before it is due.
func nextStep(pod *corev1.Pod) (next step, after time.Duration) {
	_, fails := pod.Annotations[PodFailAfter]
	_, succeeds := pod.Annotations[PodSucceedAfter]
	switch {
	case pod.DeletionTimestamp != nil:
		return terminate, 0
	case pod.Status.Phase == corev1.PodPending:
		return run, durationOf(pod, PodReadyAfter)
	case pod.Status.Phase == corev1.PodRunning && fails:
		return fail, durationOf(pod, PodFailAfter)
	case pod.Status.Phase == corev1.PodRunning && succeeds:
		return succeed, durationOf(pod, PodSucceedAfter)
	default:
		return nothing, 0
	}
}

// durationOf returns the duration in an annotation. What is no duration counts as 0.
func durationOf(pod *corev1.Pod, annotation string) time.Duration {
	duration, _ := time.ParseDuration(pod.Annotations[annotation])
	return duration
}

// carryOut writes to the API server what has become of the Pod. It does not change pod.
func (s step) carryOut(ctx context.Context, kube client.Client, pod *corev1.Pod) error {
	changed := pod.DeepCopy()
	switch s {
	case run:
		runPod(changed)
	case succeed:
		endPod(changed, corev1.PodSucceeded)
	case fail:
		endPod(changed, corev1.PodFailed)
	case terminate:
		return terminatePod(ctx, kube, pod)
	case nothing:
		return nil
	}
	return kube.Status().Patch(ctx, changed, client.StrategicMergeFrom(pod))
}

// terminatePod gives a Pod its last phase before it is removed, as a kubelet does: Jobs wait for that.
func terminatePod(ctx context.Context, kube client.Client, pod *corev1.Pod) error {
	if phase := pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
		changed := pod.DeepCopy()
		endPod(changed, corev1.PodFailed)
		if err := kube.Status().Patch(ctx, changed, client.StrategicMergeFrom(pod)); err != nil {
			return err
		}
	} else if *pod.DeletionGracePeriodSeconds == 0 {
		return nil // only finalizers hold it
	}
	return kube.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
}

func runPod(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		setCondition(pod, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	setContainers(pod, true, running)
}

func endPod(pod *corev1.Pod, phase corev1.PodPhase) {
	now := metav1.Now()
	reason, ended := "PodCompleted", &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}
	if phase == corev1.PodFailed {
		reason, ended.Reason, ended.ExitCode = "PodFailed", "Error", 1
	}
	pod.Status.Phase = phase
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(pod, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: now})
	}
	setContainers(pod, false, corev1.ContainerState{Terminated: ended})
}

func setCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition.Type {
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// setContainers gives all containers of a Pod the same state.
func setContainers(pod *corev1.Pod, ready bool, state corev1.ContainerState) {
	pod.Status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: ready, Started: &ready, State: state,
		})
	}
}

// nodeStatus returns the status of a Node that has room for every Pod.
func nodeStatus() corev1.NodeStatus {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1k"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("1M"),
	}
	now := metav1.Now()
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	return corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{ready}}
}
