// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"miracle.dev/scaledjob-operator/internal/scaling"
)

func waiting(messages, threshold int64) []scaling.Queue {
	return []scaling.Queue{{Waiting: messages, Threshold: threshold}}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec    string
		numbers Numbers
	}{
		"plan-pending": {
			strings.Replace(plain, "maxReplicas: 20", "maxPendingReplicas: 2", 1), Numbers{Queues: waiting(47, 10), Active: 2, Pending: 1},
		},
		"plan-surplus":   {plain, Numbers{Queues: waiting(7, 10), Active: 3}},
		"plan-suspended": {`{suspend: true, ` + plain[1:], Numbers{Queues: waiting(11, 10), Active: 1}},
		"plan-custom": {
			strings.Replace(plain, "threshold: 10", "threshold: 2, scalingStrategy: {type: Custom, custom: {queueLengthDeduction: 1, runningJobPercentage: 50}}", 1),
			Numbers{Queues: waiting(7, 2), Active: 5, Pending: 1, Claimed: 3},
		},
		"plan-stream": {
			`{queues: [{name: events, type: Stream, stream: {consumerGroup: workers}}, {name: urgent, threshold: 1}], threshold: 5, queuesCalculation: Max, maxReplicas: 3}`,
			Numbers{Queues: []scaling.Queue{{Waiting: 12, InProgress: 3, Threshold: 5}, {Waiting: 4, Threshold: 1}}},
		},
	} {
		plan := PlanFor(parse(t, row.spec, "{activeJobs: 99}"), row.numbers)
		expectFile(NewWithT(t), name+".golden", plan.Text(100))
	}
}

// A plan creates what package scaling decides, and its arithmetic ends with the number of desired Jobs.
func TestPlansAreWhatTheOperatorDecides(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sj := drawScaledJob(t)
		e := newExplainer(Facts{ScaledJob: sj, JobsKnown: true, PodsKnown: true, Now: now})
		seen, _ := e.observation()
		small := rapid.Int64Range(0, 20)
		numbers := Numbers{Claimed: small.Draw(t, "claimed"), Pending: small.Draw(t, "pending"), Overdue: rapid.Bool().Draw(t, "overdue")}
		numbers.Active = numbers.Claimed + numbers.Pending + small.Draw(t, "neither")
		if most := int32(small.Draw(t, "most pending")); most > 0 {
			sj.Spec.MaxPendingReplicas = &most
			e.policy.MaxPendingReplicas = most
		}
		numbers.Queues = seen.Queues
		seen.Active, seen.Claimed, seen.Overdue = numbers.Active, numbers.Claimed, numbers.Overdue
		decision := scaling.Decide(seen, e.policy)
		plan := PlanFor(sj, numbers)
		if plan.Desired != decision.Desired || plan.Create+plan.Later != int64(decision.Create) ||
			plan.Create != min(int64(decision.Create), e.policy.Startable(numbers.Pending)) {
			t.Fatalf("%+v, and not %+v", plan, decision)
		}
		if steps := strings.Join(plan.Arithmetic, ""); strings.Contains(steps, "different moments") || strings.Contains(steps, "can't be repeated") {
			t.Fatalf("everything is known: %q", plan.Arithmetic)
		}
	})
}
