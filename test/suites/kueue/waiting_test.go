// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// The queues that docs/how-to/kueue.md names.
const (
	documentedLocalQueue   = "gpu"
	documentedClusterQueue = "gpus"
)

// notAdmitted is a situation in which Kueue does not admit all Jobs.
type notAdmitted struct {
	queues func(*stage)
	change sjtest.Change
}

// situations are those of the table in docs/how-to/kueue.md, by the first text of the row.
var situations = map[string]notAdmitted{
	"LocalQueue gpu doesn't exist": {queues: func(*stage) {}},
	"LocalQueue gpu is inactive": {queues: func(s *stage) {
		s.quota(quotaOf)
		s.apply(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterQueue: %[1]s, stopPolicy: Hold}
`, s.Namespace, localQueue)
	}},
	"ClusterQueue gpus doesn't exist": {queues: (*stage).makeLocalQueue},
	"ClusterQueue gpus is inactive": {queues: func(s *stage) {
		s.covers(corev1.ResourceCPU, 1, "namespaceSelector: {}, stopPolicy: Hold")
	}},
	"workload namespace doesn't match ClusterQueue selector": {queues: func(s *stage) { s.covers(corev1.ResourceCPU, 1, "") }},
	"resource memory unavailable in ClusterQueue": {
		queues: func(s *stage) { s.quota(quotaOf) },
		change: func(spec *scaledjobv1.ScaledJobSpec) {
			requestsOf(spec)[corev1.ResourceMemory] = resource.MustParse("1Gi")
		},
	},
	"insufficient quota for cpu in flavor": {
		queues: func(s *stage) { s.quota(1) },
		change: func(spec *scaledjobv1.ScaledJobSpec) { requestsOf(spec)[corev1.ResourceCPU] = resource.MustParse("2") },
	},
	"insufficient unused quota for cpu in flavor": {queues: func(s *stage) { s.quota(1) }},
}

func requestsOf(spec *scaledjobv1.ScaledJobSpec) corev1.ResourceList {
	return spec.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Requests
}

// Whoever looks for the cause finds the words of Kueue in the table.
func TestKueueSaysWhatTheTableSays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := must.Get(os.ReadFile("../../../docs/how-to/kueue.md"))(g)
	_, table, found := strings.Cut(string(page), "| the message of `QuotaReserved` contains |")
	g.Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(table, -1) {
		texts := strings.Split(strings.Trim(row[1], "`"), "`, `")
		documented[texts[0]] = texts
	}
	g.Expect(documented).To(HaveLen(len(situations)))
	for text, row := range skip.AllBut(t, situations, "insufficient unused quota for cpu in flavor") {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.Expect(documented).To(HaveKey(text))
			row.queues(s)
			if row.change == nil {
				row.change = func(*scaledjobv1.ScaledJobSpec) {}
			}
			s.create(row.change)
			s.Push(2)
			names := strings.NewReplacer(documentedClusterQueue, s.Namespace, documentedLocalQueue, localQueue)
			s.Eventually(func() bool {
				return slices.ContainsFunc(documented[text], func(text string) bool {
					return strings.Contains(strings.Join(s.unreserved(), "\n"), names.Replace(text))
				})
			}).Should(BeTrue(), func() string { return strings.Join(s.unreserved(), "\n") })
		})
	}
}

// unreserved are the messages of the Workloads that have no quota.
func (s *stage) unreserved() (messages []string) {
	s.t.Helper()
	for _, workload := range s.workloads() {
		conditions, _, err := unstructured.NestedSlice(workload.Object, "status", "conditions")
		s.Expect(err).NotTo(HaveOccurred())
		for _, condition := range conditions {
			if fields := condition.(map[string]any); fields["type"] == "QuotaReserved" && fields["status"] == "False" {
				messages = append(messages, fields["message"].(string))
			}
		}
	}
	return messages
}

// Jobs that request nothing which the ClusterQueue covers take nothing from its quota. Each Pod takes one of the
// resource pods.
func TestWhatJobsWithoutRequestsTakeFromTheQuota(t *testing.T) {
	skip.UnderShort(t, "TestTheQuotaBoundsWhatRunsAndEachMessageHasOneJob has Jobs with requests")
	t.Parallel()
	const messages = 3
	for covered, running := range map[corev1.ResourceName]int{corev1.ResourceCPU: messages, corev1.ResourcePods: 1} {
		t.Run(string(covered), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.covers(covered, 1, "namespaceSelector: {}")
			s.create(func(spec *scaledjobv1.ScaledJobSpec) { clear(requestsOf(spec)) })
			s.Push(messages)
			s.expectWorking(running)
			s.expectSuspended(messages-running, messages)
			s.finishAll()
			s.expectDone(messages)
			s.Expect(s.beyond(running)).To(BeEmpty())
		})
	}
}
