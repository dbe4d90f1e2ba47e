// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rows are all comparisons.
func rows() []row {
	return slices.Concat(ofExamples(), ofStrategies(), ofReplicas(), ofSeveral(), ofLists(), ofStreams())
}

// list is a spec with one list as its trigger, with this threshold, and these further fields.
func list(key, threshold string, more ...string) string {
	return fmt.Sprintf("triggers: [{type: redis, metadata: {address: %q, listName: %s, listLength: %q}}]\n", address, key, threshold) +
		strings.Join(more, "\n")
}

// stream is a spec with a stream as its trigger, with these parameters, and these further fields.
func stream(parameters string, more ...string) string {
	return fmt.Sprintf("triggers: [{type: redis-streams, metadata: {address: %q, stream: events, %s}}]\n", address, parameters) +
		strings.Join(more, "\n")
}

func strategy(name string) string { return "scalingStrategy: {strategy: " + name + "}" }

func maximum(jobs int) string { return fmt.Sprintf("maxReplicaCount: %d", jobs) }

func minimum(jobs int) string { return fmt.Sprintf("minReplicaCount: %d", jobs) }

// graceLater has Jobs count for their messages until a test says otherwise.
const graceLater = "{scalingStrategy: {claimGraceSeconds: 3600}}"

// claim has all Jobs whose Pods are ready count as those that have taken their messages.
func claim(s *stage) {
	s.t.Helper()
	s.patch(s.ours.Reference(), map[string]any{"spec": map[string]any{"scalingStrategy": map[string]any{"claimGraceSeconds": 0}}})
}

// ofStrategies compare the strategies.
func ofStrategies() []row {
	accurate := place{numbers, "`accurate`; 3 messages, 3 running Jobs that have not popped yet"}
	eager := place{numbers, "`eager`, maximum 10; 4 messages, 4 pending Jobs"}
	return []row{
		{
			name: "default", spec: list("queue", "2"),
			steps: []step{
				{what: "no messages"},
				{what: "a message", do: []change{push("queue", 1)}, keda: 1, ours: 1},
				{what: "messages of one Job", do: []change{push("queue", 1)}, keda: 1, ours: 1},
				{what: "messages of several Jobs", do: []change{push("queue", 7)}, keda: 5, ours: 5},
				{what: "the Pods run", do: []change{startPods}, keda: 5, ours: 5},
				{what: "messages are taken", do: []change{pop("queue", 8)}, keda: 5, ours: 5},
				{what: "a Job ends", do: []change{finishOne}, keda: 5, ours: 5},
				{what: "more messages than Jobs", do: []change{push("queue", 11)}, keda: 7, ours: 7},
			},
		},
		{
			name: "default-and-workers-that-pop", spec: list("queue", "1"),
			steps: []step{
				{what: "a message", do: []change{push("queue", 1)}, keda: 1, ours: 1},
				{what: "a long Job has it", do: []change{startPods, pop("queue", 1)}, keda: 1, ours: 1},
				{what: "the next message waits for its end", do: []change{push("queue", 1)}, keda: 1, ours: 1},
				{what: "the Job ends", do: []change{finishOne}, keda: 2, ours: 2},
			},
		},
		{
			name: "accurate", spec: list("queue", "1", strategy("accurate"), maximum(20)), completed: graceLater,
			steps: []step{
				{what: "messages", do: []change{push("queue", 3)}, keda: 3, ours: 3},
				{what: "the Pods are pending", keda: 3, ours: 3},
				{what: "the Pods run", do: []change{startPods}, keda: 6, ours: 3, named: accurate},
				{what: "they take their messages", do: []change{pop("queue", 3)}, keda: 6, ours: 3, named: accurate},
			},
		},
		{
			name: "accurate-and-workers-that-pop", spec: list("queue", "1", strategy("accurate"), maximum(6)), completed: graceLater,
			steps: []step{
				{what: "messages", do: []change{push("queue", 2)}, keda: 2, ours: 2},
				{what: "the Pods have taken them", do: []change{startPods, pop("queue", 2), claim}, keda: 2, ours: 2},
				{what: "the next messages", do: []change{push("queue", 3)}, keda: 5, ours: 5},
				{what: "more than the maximum", do: []change{push("queue", 4)}, keda: 6, ours: 6},
			},
		},
		{
			name: "eager", spec: list("queue", "1", strategy("eager"), maximum(10)),
			steps: []step{
				{what: "messages", do: []change{push("queue", 4)}, keda: 4, ours: 10, named: eager},
				{what: "the next look", keda: 6, ours: 10, named: eager},
				{what: "the look after that", keda: 6, ours: 10, named: eager},
				{what: "the Pods run", do: []change{startPods}, keda: 10, ours: 10},
			},
		},
		{
			name:  "custom",
			spec:  list("queue", "1", "scalingStrategy: {strategy: custom, customScalingRunningJobPercentage: \"0.5\"}", maximum(10)),
			steps: customSteps(),
		},
		{
			name: "custom-deduction",
			spec: list("queue", "1", "scalingStrategy: {strategy: custom, customScalingQueueLengthDeduction: 2, "+
				"customScalingRunningJobPercentage: \"0\"}"),
			steps: []step{
				{what: "not more messages than the deduction", do: []change{push("queue", 2)}},
				{what: "more", do: []change{push("queue", 3)}, keda: 3, ours: 3},
			},
		},
	}
}

// customSteps has half of the running Jobs deducted.
func customSteps() []step {
	return []step{
		{what: "messages", do: []change{push("queue", 10)}, keda: 10, ours: 10},
		{
			what: "as many again", do: []change{startPods, pop("queue", 10), push("queue", 10)}, keda: 15, ours: 10,
			named: place{numbers, "`custom` with 0.5"},
		},
	}
}

// ofReplicas compare minimum, maximum, and when either looks.
func ofReplicas() []row {
	return []row{
		{
			name: "minimum", spec: list("queue", "1", minimum(2), maximum(20)),
			steps: []step{
				{what: "spare Jobs", keda: 2, ours: 2},
				{what: "messages besides idle spare Jobs", do: []change{startPods, push("queue", 3)}, keda: 5, ours: 5},
				{what: "the maximum includes the minimum", do: []change{startPods, push("queue", 30)}, keda: 20, ours: 20},
			},
		},
		{
			name: "minimum-and-messages-at-once", spec: list("queue", "1", minimum(2), maximum(20)),
			steps: []step{
				{
					what: "both", do: []change{push("queue", 10)}, keda: 2, ours: 12,
					named: place{numbers, "minimum 2; no Job runs, 10 messages"},
				},
				{what: "the next look", keda: 12, ours: 12},
			},
		},
		{
			name: "accurate-and-a-minimum", spec: list("queue", "1", strategy("accurate"), minimum(5), maximum(50)), completed: graceLater,
			steps: []step{
				{what: "spare Jobs", keda: 5, ours: 5},
				{what: "as many messages", do: []change{push("queue", 5)}, keda: 5, ours: 5},
			},
		},
		{
			name: "maximum-and-the-end-of-a-Job", spec: list("queue", "1", maximum(2)),
			steps: []step{
				{what: "messages", do: []change{push("queue", 6)}, keda: 2, ours: 2},
				{
					what: "a Job ends", do: []change{startPods, pop("queue", 2), finishOne}, looks: never, keda: 2, ours: 3,
					named: place{numbers, "a Job ends while messages wait at the maximum"},
				},
				{what: "the next look", keda: 3, ours: 3},
			},
		},
		{
			name: "polling-interval", spec: list("queue", "1", "pollingInterval: 30"),
			steps: []step{
				{what: "before KEDA looks", do: []change{push("queue", 2)}, looks: never, ours: 2, named: place{fields, "`pollingInterval`"}},
				{what: "after that", keda: 2, ours: 2},
			},
		},
		{
			name: "gradual-rollout", spec: list("queue", "1"),
			steps: []step{
				{what: "messages", do: []change{push("queue", 2)}, keda: 2, ours: 2},
				{what: "an edit", do: []change{raiseMaximum}, keda: 2, ours: 2},
			},
		},
	}
}

// ofSeveral compare several triggers.
func ofSeveral() []row {
	due := place{fields, "`multipleScalersCalculation`"}
	two := func(calculation, first, second string) string {
		const trigger = "{type: redis, metadata: {address: %q, listName: %s, listLength: %q}}"
		return fmt.Sprintf("triggers: ["+trigger+", "+trigger+"]\nscalingStrategy: {multipleScalersCalculation: %s}",
			address, "a", first, address, "b", second, calculation)
	}
	return []row{
		{
			name: "max-of-two", spec: two("max", "20", "1"),
			steps: []step{
				{
					what: "the longer list has the higher threshold", do: []change{pushBoth(20, 10)}, keda: 1, ours: 10,
					named: place{numbers, "2 lists, `max`"},
				},
				{what: "the other list is the longer one", do: []change{push("b", 11)}, keda: 21, ours: 21},
			},
		},
		{
			name: "min-of-two", spec: two("min", "1", "5"),
			steps: []step{
				{what: "one list is empty", do: []change{push("a", 3)}, keda: 3, ours: 3},
				{what: "the shorter list has the lower threshold", do: []change{pushBoth(5, 10)}, keda: 8, ours: 3, named: due},
			},
		},
		{
			name: "avg-of-two", spec: two("avg", "2", "2"),
			steps: []step{
				{what: "one list is empty", do: []change{push("a", 5)}, keda: 3, ours: 3},
				{what: "both have messages", do: []change{pushBoth(5, 2)}, keda: 3, ours: 3},
			},
		},
		{
			name: "sum-of-two", spec: two("sum", "3", "3"),
			steps: []step{
				{what: "messages that share a Job", do: []change{pushBoth(1, 1)}, keda: 1, ours: 1},
				{what: "messages of several Jobs", do: []change{pushBoth(4, 4)}, keda: 4, ours: 4},
			},
		},
		{
			name: "sum-of-two-thresholds", spec: two("sum", "2", "3"),
			steps: []step{
				{what: "messages that share a Job with KEDA", do: []change{pushBoth(1, 1)}, keda: 1, ours: 2, named: due},
				{what: "whole Jobs", do: []change{pushBoth(3, 5)}, keda: 4, ours: 4},
			},
		},
	}
}

// ofLists compare what a trigger counts in keys that are no streams.
func ofLists() []row {
	sorted := place{parameters, "`listName`"}
	later := float64(time.Now().Add(24 * time.Hour).UnixMilli())
	return []row{
		{
			name: "threshold-0", spec: list("queue", "0"), incomplete: "KEDA never creates a Job with this number",
			steps: []step{{what: "messages", do: []change{push("queue", 2)}, ours: 2, named: place{numbers, "`listLength: \"0\"`"}}},
		},
		{
			name: "sorted-set", spec: list("queue", "1"),
			steps: []step{{what: "members", do: []change{score("queue", "due-", 2, 1)}, keda: 2, named: sorted}},
		},
		{
			name: "sorted-set-of-delayed-messages", spec: list("queue", "1", maximum(12)),
			completed: "{queueName: null, queues: [{name: queue, type: SortedSet, sortedSet: {window: Due}}]}",
			steps: []step{
				{what: "members that are due", do: []change{score("queue", "due-", 3, 1)}, keda: 3, ours: 3},
				{
					what: "members that are not", do: []change{score("queue", "later-", 20, later)}, keda: 12, ours: 3,
					named: place{numbers, "sorted set; 10 due messages, 1,000 later ones"},
				},
			},
		},
	}
}

// ofStreams compare what a trigger counts in a stream.
func ofStreams() []row {
	const lag = "consumerGroup: workers, lagCount: \"1\""
	missing := place{numbers, "stream without its group; 1,000 entries"}
	return []row{
		{
			name: "pending-entries", spec: stream("consumerGroup: workers, pendingEntriesCount: \"1\""),
			steps: []step{{
				what: "no worker reads", do: []change{group("events", "workers"), add("events", 10)}, ours: 10,
				named: place{numbers, "stream by pending entries; 10 new entries, no worker"},
			}},
		},
		{
			name: "unknown-lag", spec: stream(lag),
			steps: []step{{
				what: "an entry was deleted", do: []change{group("events", "workers"), add("events", 4), deleteSecond("events")}, ours: 3,
				named: place{numbers, "stream by lag; Redis does not know the lag"},
			}},
		},
		{
			name: "lag-and-a-dead-worker", spec: stream(lag),
			steps: []step{
				{
					what: "it has read an entry", do: []change{group("events", "workers"), add("events", 1), read("events", "workers", 1)}, ours: 1,
					named: place{numbers, "stream by lag; a worker died with 1 entry"},
				},
			},
		},
		{
			name: "missing-group", spec: stream(lag, maximum(6)),
			steps: []step{{what: "entries", do: []change{add("events", 10)}, keda: 6, ours: 1, named: missing}},
		},
		{
			name: "length", spec: stream("streamLength: \"4\""),
			steps: []step{
				{what: "entries", do: []change{add("events", 9)}, keda: 3, ours: 3},
				{what: "one more for the same Job", do: []change{add("events", 1)}, keda: 3, ours: 3},
			},
		},
	}
}
