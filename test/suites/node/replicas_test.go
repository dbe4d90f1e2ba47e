// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestLeaderIsDeleted deletes the Pod that leads while Jobs run and messages arrive.
func TestLeaderIsDeleted(t *testing.T) {
	skip.UnderShort(t, "TestUpgrade changes the leader too")
	g := NewWithT(t)
	install(t)
	w := newWork(t)
	w.start(10)
	w.push(2, 20*time.Second)
	w.expectRunning(2)

	first := leader(t)
	kubectl(t, "--namespace="+system, "delete", "pod", first, "--wait=false")
	w.push(2, time.Second)
	g.Eventually(func() string { return leader(t) }).ShouldNot(Or(BeEmpty(), Equal(first)))
	w.push(2, time.Second)
	w.expectDone()
}

// TestDrainKeepsAReplica asks for the eviction of both replicas, as a drain of their node does.
func TestDrainKeepsAReplica(t *testing.T) {
	skip.UnderShort(t, "Kubernetes itself keeps to the PodDisruptionBudget")
	g := NewWithT(t)
	install(t)
	pods := operatorPods(t)
	g.Expect(pods).To(HaveLen(2))
	// The first try may come before the budget knows the Pods.
	g.Eventually(func() error { return evict(t, pods[0]) }).Should(Succeed())
	g.Expect(evict(t, pods[1])).To(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"))
	kubectl(t, "--namespace="+system, "get", "pod", pods[1])

	awaitOperator(t)
	g.Eventually(func() error { return evict(t, pods[1]) }).Should(Succeed(), "once the other replica is back")
	awaitOperator(t)
	if onKind() { // which has a second node for the Pods
		node := pod(t, operatorPods(t)[0]).Spec.NodeName
		atEnd(t, "kubectl uncordon "+node)
		kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m")
		awaitOperator(t)
	}
}

func evict(t *testing.T, pod string) error {
	t.Helper()
	return clients.PolicyV1().Evictions(system).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: pod},
	})
}

// operatorPods returns the names of the operator's Pods that are not being deleted.
func operatorPods(t *testing.T) []string {
	t.Helper()
	pods := must.Get(clients.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: ours}))(NewWithT(t))
	var names []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names
}

// leader returns the name of the Pod that leads, empty if none does.
func leader(t *testing.T) string {
	t.Helper()
	holder := kubectl(t, "--namespace="+system, "get", "leases", "-o", "jsonpath={.items[*].spec.holderIdentity}")
	pod, _, _ := strings.Cut(holder, "_")
	return pod
}
