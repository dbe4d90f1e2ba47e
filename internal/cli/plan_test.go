// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/cli/explain"
)

// planInput has two ScaledJobs, and something else.
const planInput = `
apiVersion: v1
kind: Secret
metadata: {name: mail}
---
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {name: mail, namespace: mail}
spec: {queues: [{name: urgent, threshold: 1}, {name: bulk, threshold: 100}], threshold: 1, maxPendingReplicas: 2}
status: {activeJobs: 9}
---
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {name: events}
spec: {queues: [{name: events, type: Stream, stream: {consumerGroup: workers}}], threshold: 2, scalingStrategy: {type: Accurate}}
`

// planFor is a plan that needs no cluster, as programs get it.
func planFor(t *testing.T, input, args string) explain.Plan {
	t.Helper()
	is := offline(t, input, strings.Fields("plan -o json "+args)...)
	g := NewWithT(t)
	g.Expect(is.code).To(BeZero(), is.errOut)
	var plan explain.Plan
	g.Expect(json.Unmarshal([]byte(is.out), &plan)).To(Succeed())
	return plan
}

func TestPlanOfAManifest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	plan := planFor(t, planInput, "-f - mail --depth urgent=3 --depth bulk=250 --active 2 --pending 1")
	g.Expect(plan.APIVersion + " " + plan.Kind + " " + plan.Namespace + "/" + plan.Name).To(Equal("cli.batch.miracle.dev/v1 Plan mail/mail"))
	g.Expect(plan.Arithmetic).To(ContainElement("3 + ceil(250 / 100) = 6"))
	g.Expect(plan).To(And(HaveField("Outstanding", int64(253)), HaveField("Desired", int32(6)), HaveField("Create", int64(1)), HaveField("Later", int64(3))))

	// A manifest says nothing of the present: keys without a number are empty, and no Job is active.
	plan = planFor(t, planInput, "-f - mail --depth bulk=1")
	g.Expect(plan).To(And(HaveField("Outstanding", int64(1)), HaveField("Active", BeZero()), HaveField("Create", int64(1))))

	// Of a stream, only the entries that wait need Jobs in addition to those that are claimed.
	plan = planFor(t, planInput, "-f - events --depth 7+3 --active 3 --pending 1")
	g.Expect(plan.Arithmetic).To(ContainElement("2 claimed + ceil(7 / 2) = 6"))
	g.Expect(plan).To(And(HaveField("Outstanding", int64(10)), HaveField("Create", int64(3))))
}

func TestPlanWithoutAScaledJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	plan := planFor(t, "", "--depth 47 --threshold 10 --max-replicas 4")
	g.Expect(plan.Arithmetic).To(HaveExactElements(HavePrefix("Default:"), "ceil(47 / 10) = 5", "lowered to maxReplicas: 4"))
	plan = planFor(t, "", "--depth a=4 --depth b=1 --threshold 2 --queues-calculation Avg --min-replicas 3")
	g.Expect(plan.Arithmetic).To(ContainElements("ceil((ceil(4 / 2) + ceil(1 / 2)) / 2) = 2", "raised to minReplicas: 3"))
	plan = planFor(t, "", "--depth 5 --activation-threshold 9 --spare-replicas 1 --max-pending-replicas 1")
	g.Expect(plan).To(And(HaveField("Desired", int32(1)), HaveField("Create", int64(1))))
	plan = planFor(t, "", "--depth 5 --activation-threshold 9 --overdue")
	g.Expect(plan.Desired).To(BeEquivalentTo(5))
	plan = planFor(t, "", "--depth 1 --claimed 1 --scaling-strategy Accurate")
	g.Expect(plan).To(And(HaveField("Active", int64(1)), HaveField("Desired", int32(2)), HaveField("Create", int64(1))))
}
