// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestLeaderRunsOutOfMemory has the kernel kill the leader in the middle of a burst. The Jobs are suspended: what
// counts is how many there are.
func TestLeaderRunsOutOfMemory(t *testing.T) {
	skip.UnderShort(t, "TestKilledInMidBurst ends the operator in the same way, by a signal")
	const messages = 1000
	g := NewWithT(t)
	install(t)
	w := newWork(t)
	w.start(messages, "suspend: true")

	name := leader(t)
	g.Expect(shared.LimitMemoryToUsage(t.Context(), pod(t, name).Spec.NodeName, containerOf(pod(t, name)))).To(Succeed())
	w.push(messages, time.Second)
	g.Eventually(func() string { return lastEnd(pod(t, name)) }).Should(Equal("OOMKilled"))
	t.Logf("at the end of the leader there were %d Jobs", w.jobs.created())

	g.Eventually(w.jobs.created).Should(Equal(messages))
	awaitOperator(t)
	w.push(1, time.Second) // beyond maxReplicas
	g.Eventually(func() string { return w.kubectl("get", "scaledjob", "work", "-o", "jsonpath={.status.queueDepth}") }).Should(Equal("1001"))
	g.Expect(w.jobs.created()).To(Equal(messages))
}

func pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return must.Get(clients.CoreV1().Pods(system).Get(t.Context(), name, metav1.GetOptions{}))(NewWithT(t))
}

// containerOf returns the ID by which the container runtime knows the container of a Pod.
func containerOf(pod *corev1.Pod) string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

// lastEnd returns why the previous container of a Pod has ended.
func lastEnd(pod *corev1.Pod) string {
	if ended := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; ended != nil {
		return ended.Reason
	}
	return ""
}
