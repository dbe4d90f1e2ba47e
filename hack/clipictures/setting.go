// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// setting is what the commands are run against.
type setting struct {
	control *cluster.Cluster
	api     client.WithWatch
	redis   *redistest.Server
	stops   []func(context.Context) error
}

// queue is a ScaledJob with its messages.
type queue struct {
	namespace, name     string
	threshold, messages int
	spec, container     string
}

// deployment stands for the operator, which runs as a process here. Nobody runs its Pods.
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: ` + operator.Namespace + `, name: scaledjob-operator, labels: {app.kubernetes.io/name: scaledjob-operator}}
spec:
  selector: {matchLabels: {app: scaledjob-operator}}
  template:
    metadata: {labels: {app: scaledjob-operator}}
    spec:
      schedulerName: none
      serviceAccountName: ` + operator.ServiceAccount + `
      containers: [{name: manager, image: "scaledjob-operator:v1.0.0"}]
`

// prepare creates ScaledJobs with messages. One of them has Jobs that can't start, and lacks a Secret.
func (s *setting) prepare(ctx context.Context) error {
	if err := s.control.Apply(ctx, strings.NewReader(deployment)); err != nil {
		return err
	}
	is := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "scaledjob-operator"}}
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(is), is); err != nil {
		return err
	}
	is.Status.Replicas, is.Status.ReadyReplicas = 1, 1
	if err := s.api.Status().Update(ctx, is); err != nil {
		return err
	}
	const smtp = `, env: [{name: SMTP_PASSWORD, valueFrom: {secretKeyRef: {name: smtp, key: password}}}]`
	for _, each := range []queue{
		{namespace: "mail", name: "emails", threshold: 10, messages: 47, spec: "maxReplicas: 20, ", container: smtp},
		{namespace: "mail", name: "newsletters", threshold: 100, messages: 0},
		{namespace: "media", name: "video", threshold: 1, messages: 812, spec: "maxReplicas: 40, "},
		{namespace: "media", name: "thumbnails", threshold: 5, messages: 60, spec: "suspend: true, "},
		{namespace: "reports", name: "monthly", threshold: 1, messages: 3, spec: "activationThreshold: 5, "},
	} {
		if err := s.create(ctx, each); err != nil {
			return err
		}
	}
	return s.startPods(ctx)
}

// create creates a ScaledJob and its messages.
func (s *setting) create(ctx context.Context, q queue) error {
	key := q.name
	if q.messages > 0 {
		if err := s.redis.Client().LPush(ctx, key, slices.Repeat([]any{"message"}, q.messages)...).Err(); err != nil {
			return err
		}
	}
	return s.control.Apply(ctx, strings.NewReader(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  {%[3]squeueName: %[2]s, redisAddress: "%[4]s", threshold: %[5]d,
  jobTemplate: {spec: {template: {metadata: {annotations: {%[7]s: 24h}}, spec: {restartPolicy: Never, containers: [
    {name: worker, image: "example/worker:0"%[6]s}]}}}}}
`, q.namespace, q.name, q.spec, s.redis.Addr(), q.threshold, q.container, cluster.PodReadyAfter)))
}

// startPods has all Pods run, but one of emails, whose image can't be pulled, and one that fits no node.
func (s *setting) startPods(ctx context.Context) error {
	const due = 5 + 40
	var pods corev1.PodList
	err := sjtest.Await(ctx, func(ctx context.Context) error {
		if err := s.api.List(ctx, &pods); err != nil {
			return err
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Namespace == operator.Namespace })
		if len(pods.Items) < due {
			return fmt.Errorf("there are %d Pods", len(pods.Items))
		}
		return nil
	})
	if err != nil {
		return err
	}
	stuck := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Namespace == "mail" && stuck < 2 {
			stuck++
			if err := s.hinder(ctx, pod, stuck == 1); err != nil {
				return err
			}
			continue
		}
		if err := cluster.Now(ctx, s.api, pod, cluster.PodReadyAfter); err != nil {
			return err
		}
	}
	return nil
}

// hinder gives a Pod the status of one whose image can't be pulled, or that fits no node.
func (s *setting) hinder(ctx context.Context, pod *corev1.Pod, image bool) error {
	if image {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", Image: "example/worker:0", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "example/worker:0"`},
		}}}
	} else {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes are available: 3 Insufficient cpu.",
		}}
	}
	return s.api.Status().Update(ctx, pod)
}

// keepBusy changes the queues, so that the trends of top have something to show. Jobs that are due do not change.
func (s *setting) keepBusy(ctx context.Context) {
	for i := 0; sjtest.Pause(ctx, time.Second) == nil; i++ {
		s.redis.Client().LPopCount(ctx, "video", 9)
		if i%3 == 0 {
			s.redis.Client().LPush(ctx, "thumbnails", "message", "message")
		}
	}
}
