// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IdleJob returns a template of Jobs that only a test touches: Kubernetes'
// controller of Jobs leaves alone those that are managed by another.
func IdleJob() *batchv1.JobTemplateSpec {
	manager := "test.batch.miracle.dev/worker"
	return &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		ManagedBy: &manager,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "worker", Image: "worker"}},
		}},
	}}
}

// Ready has the Pod of a Job that nobody else touches be ready, in place of the controller of Jobs.
func Ready(ctx context.Context, api client.Client, key client.ObjectKey) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	pending := job.DeepCopy()
	job.Status = readyStatus()
	if err := api.Status().Patch(ctx, job, client.MergeFrom(pending)); err != nil {
		return fmt.Errorf("telling that the Pod of Job %s is ready: %w", key, err)
	}
	return nil
}

// readyStatus is that of a Job whose Pod is ready.
func readyStatus() batchv1.JobStatus {
	ready := int32(1)
	return batchv1.JobStatus{Active: ready, Ready: &ready}
}

// Complete has a Job that nobody else touches succeed, in place of the controller
// of Jobs, whether or not its Pod was Ready.
func Complete(ctx context.Context, api client.Client, key client.ObjectKey) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	unfinished := job.DeepCopy()
	unfinished.Status = readyStatus() // The patch takes away what the status has no more.
	now := metav1.Now()
	job.Status = batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	if err := api.Status().Patch(ctx, job, client.MergeFrom(unfinished)); err != nil {
		return fmt.Errorf("completing Job %s: %w", key, err)
	}
	return nil
}
