// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// illQueues are specs of queues and strategies such as the schema refuses today.
var illQueues = map[string]map[string]any{
	"type-unknown":     {"queues": []any{map[string]any{"name": "messages", "type": "Heap"}}},
	"role-unknown":     {"queues": []any{map[string]any{"name": "messages", "role": "Lost"}}},
	"name-empty":       {"queues": []any{map[string]any{"name": ""}}},
	"name-missing":     {"queues": []any{map[string]any{"type": "List"}}},
	"queues-empty":     {"queues": []any{}},
	"threshold-minus":  {"queues": []any{map[string]any{"name": "messages", "threshold": int64(-7)}}},
	"threshold-least":  {"queues": []any{map[string]any{"name": "messages", "threshold": int64(-9223372036854775808)}}},
	"window-unknown":   {"queues": []any{map[string]any{"name": "sorted", "type": "SortedSet", "sortedSet": map[string]any{"window": "Soon", "scoreUnit": "years"}}}},
	"window-on-list":   {"queues": []any{map[string]any{"name": "messages", "type": "List", "sortedSet": map[string]any{"window": "Due"}}}},
	"stream-on-list":   {"queues": []any{map[string]any{"name": "messages", "type": "List", "stream": map[string]any{"consumerGroup": "a\x00\r\n"}}}},
	"role-on-stream":   {"queues": []any{map[string]any{"name": "none", "type": "Stream", "role": "InProgress"}}},
	"all-in-progress":  {"queues": []any{map[string]any{"name": "messages", "role": "InProgress"}}},
	"same-twice":       {"queues": []any{map[string]any{"name": "messages"}, map[string]any{"name": "messages"}}},
	"both-types":       {"queues": []any{map[string]any{"name": "messages"}, map[string]any{"name": "messages", "type": "Stream"}}},
	"in-progress-min":  {"queuesCalculation": "Min", "queues": []any{map[string]any{"name": "messages"}, map[string]any{"name": "x", "role": "InProgress"}}},
	"calculation":      {"queuesCalculation": "Median"},
	"strategy-unknown": {"scalingStrategy": map[string]any{"type": "Wild"}},
	"custom-missing":   {"scalingStrategy": map[string]any{"type": "Custom"}},
	"percentage-500":   {"scalingStrategy": map[string]any{"type": "Custom", "custom": map[string]any{"runningJobPercentage": int64(500), "queueLengthDeduction": int64(-9223372036854775808)}}},
	"percentage-minus": {"scalingStrategy": map[string]any{"type": "Custom", "custom": map[string]any{"runningJobPercentage": int64(-500), "queueLengthDeduction": int64(9223372036854775807)}}},
	"grace-minus":      {"scalingStrategy": map[string]any{"type": "Accurate", "claimGraceSeconds": int64(-1)}},
	"grace-huge":       {"scalingStrategy": map[string]any{"type": "Accurate", "claimGraceSeconds": int64(2147483647)}},
	"rollout-unknown":  {"rollout": map[string]any{"strategy": "Big", "propagationPolicy": "Orphan"}},
	"minimum-custom":   {"minReplicas": int64(-2147483648), "scalingStrategy": map[string]any{"type": "Custom", "custom": map[string]any{"queueLengthDeduction": int64(9223372036854775807)}}},
}

func TestQueuesAndStrategiesOfAnOlderSchemaHarmNoOther(t *testing.T) {
	skip.UnderShort(t, "TestObjectsOfAnOlderSchemaHarmNoOther is the same for other fields")
	t.Parallel()
	s := newOlderCluster(t)
	s.create("healthy")
	for name, ill := range illQueues {
		s.create(name, func(object map[string]any) {
			spec := object["spec"].(map[string]any)
			maps.Copy(spec, ill)
			if _, has := ill["queues"]; has {
				delete(spec, "queueName")
			}
		})
	}
	many := make([]any, 200)
	for i := range many {
		many[i] = map[string]any{"name": "messages", "type": "List", "threshold": int64(i + 1)}
	}
	s.create("many", func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, many, "spec", "queues")).To(Succeed())
	})
	s.installSchema()
	s.startOperator()
	s.expectJobs("healthy", 3)
	for name := range illQueues {
		s.awaitReconciles(name)
		desired, _, _ := unstructured.NestedInt64(s.object(name).Object, "status", "desiredJobs")
		s.Expect(desired).To(BeNumerically(">=", 0), name)
	}
	s.awaitReconciles("many")
	s.Expect(s.operator.Logs()).NotTo(ContainSubstring("Observed a panic"))
	s.create("healthy-too")
	s.expectJobs("healthy-too", 3)
}

func (s *olderCluster) object(name string) *unstructured.Unstructured {
	s.t.Helper()
	object := olderObject(name)
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}
