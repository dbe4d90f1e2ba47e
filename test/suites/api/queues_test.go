// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// specified is the valid ScaledJob with these fields of its spec, written in YAML. A field that is null is absent.
func specified(g Gomega, fields string) *unstructured.Unstructured {
	encoded, err := yaml.YAMLToJSON([]byte(fields))
	g.Expect(err).NotTo(HaveOccurred())
	var parsed map[string]any
	g.Expect(json.Unmarshal(encoded, &parsed)).To(Succeed())
	var values []value
	for name, content := range parsed {
		values = append(values, value{[]string{"spec", name}, content})
	}
	return object(g, values...)
}

// testAccepted tests that the API server accepts each of these fields.
func testAccepted(t *testing.T, all map[string]string) {
	t.Helper()
	for name, fields := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			g.Expect(try(t.Context(), newClient(g), specified(g, fields))).To(Succeed())
		})
	}
}

// refusal is fields that the API server refuses, and the field and words that its message has.
type refusal struct{ fields, field, words string }

// testRefused tests that the API server refuses each of these fields.
func testRefused(t *testing.T, all map[string]refusal) {
	t.Helper()
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			expectRefused(g, try(t.Context(), newClient(g), specified(g, c.fields)), c.field, c.words)
		})
	}
}

// queues are the fields of a spec that has this list, written in YAML, in place of queueName.
func queues(list string) string { return "queueName: null\nqueues: " + list }

// longNames is a list of queues with the longest names that there may be. They differ in their last two bytes only, so
// that it takes longest to tell them apart. Each is written as the format says, which holds a %s for the name.
func longNames(format string, count int) string {
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf(format, fmt.Sprintf("%s%02d", strings.Repeat("q", 1022), i)))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func TestQueuesAccepted(t *testing.T) {
	t.Parallel()
	testAccepted(t, map[string]string{
		"one":                             queues("[{name: a}]"),
		"every type":                      queues("[{name: a, type: List}, {name: b, type: Stream}, {name: c, type: SortedSet}, {name: d, type: Set}, {name: e, type: Hash}]"),
		"waiting and in progress":         queues("[{name: a, role: Waiting}, {name: b, role: InProgress}]"),
		"every type in progress":          queues("[{name: w}, {name: a, role: InProgress}, {name: c, type: SortedSet, role: InProgress}, {name: d, type: Set, role: InProgress}, {name: e, type: Hash, role: InProgress}]"),
		"in progress beside a stream":     queues("[{name: a, type: Stream}, {name: b, role: InProgress}]"),
		"explicit Sum with in progress":   queues("[{name: a}, {name: b, role: InProgress}]") + "\nqueuesCalculation: Sum",
		"Max":                             queues("[{name: a}, {name: b}]") + "\nqueuesCalculation: Max",
		"Min":                             queues("[{name: a, role: Waiting}, {name: b}]") + "\nqueuesCalculation: Min",
		"Avg of streams with groups":      queues("[{name: a, type: Stream, stream: {consumerGroup: g}}, {name: b}]") + "\nqueuesCalculation: Avg",
		"stream with a group":             queues("[{name: a, type: Stream, stream: {consumerGroup: g}}]"),
		"two groups of one stream":        queues("[{name: a, type: Stream, stream: {consumerGroup: g}}, {name: a, type: Stream, stream: {consumerGroup: h}}]"),
		"same group of two streams":       queues("[{name: a, type: Stream, stream: {consumerGroup: g}}, {name: b, type: Stream, stream: {consumerGroup: g}}]"),
		"group of 1,024 characters":       queues("[{name: a, type: Stream, stream: {consumerGroup: " + strings.Repeat("g", 1024) + "}}]"),
		"sorted set with nothing said":    queues("[{name: a, type: SortedSet, sortedSet: {}}]"),
		"every window":                    queues("[{name: a, type: SortedSet, sortedSet: {window: All}}, {name: b, type: SortedSet, sortedSet: {window: Due}}, {name: c, type: SortedSet, sortedSet: {window: Live}}]"),
		"every unit":                      queues("[{name: a, type: SortedSet, sortedSet: {scoreUnit: s}}, {name: b, type: SortedSet, sortedSet: {window: Due, scoreUnit: ms}}, {name: c, type: SortedSet, sortedSet: {window: Live, scoreUnit: ns}}, {name: d, type: SortedSet, sortedSet: {window: Due, scoreUnit: BullMQ}}]"),
		"leases in progress":              queues("[{name: a}, {name: b, type: SortedSet, role: InProgress, sortedSet: {window: Live}}]"),
		"smallest threshold of its own":   queues("[{name: a, threshold: 1}]"),
		"largest threshold of its own":    queues("[{name: a, threshold: 9223372036854775807}]"),
		"name of 256 times 4 bytes":       queues("[{name: " + strings.Repeat("🙂", 256) + "}]"),
		"name with anything in it":        queues(`["name": " {a}:*?[b]\t\0\n"]`),
		"names that differ in a byte":     queues(`[{name: celery}, {name: "celery\x06\x163"}, {name: "celery\x06\x166"}, {name: "celery\x06\x169"}]`),
		"names that differ in their case": queues("[{name: a}, {name: A}]"),
		"null for every default":          queues("[{name: a, type: null, role: null, threshold: null, stream: null, sortedSet: null}, {name: b, type: SortedSet, sortedSet: {window: null, scoreUnit: null}}]"),
		"every default in its words":      queues("[{name: a, type: List, role: Waiting}, {name: b, type: SortedSet, role: Waiting, sortedSet: {window: All, scoreUnit: s}}]"),
		"unit of a window of its own":     queues("[{name: a, type: SortedSet, sortedSet: {window: Live, scoreUnit: ns}}]"),
		"16 long names":                   queues(longNames("{name: %s}", 16)),
		"16 long groups of one stream":    queues(longNames("{name: "+strings.Repeat("s", 1024)+", type: Stream, stream: {consumerGroup: %s}}", 16)),
	})
}

func TestQueuesRefused(t *testing.T) {
	t.Parallel()
	const one, twice = "exactly one of queueName and queues", "no message may count twice"
	const sumOnly = "can only be added up, by queuesCalculation Sum"
	inProgress := queues("[{name: a}, {name: b, role: InProgress}]")
	testRefused(t, map[string]refusal{
		"neither queueName nor queues":    {"queueName: null", "spec.queueName", one},
		"both queueName and queues":       {"queues: [{name: a}]", "spec.queueName", one},
		"no queue in the list":            {queues("[]"), "spec.queues", "at least 1 items"},
		"17":                              {queues(longNames("{name: %s}", 17)), "spec.queues", "at most 16 items"},
		"no name":                         {queues("[{type: Set}]"), "spec.queues[0].name", "Required value"},
		"empty name":                      {queues(`[{name: ""}]`), "spec.queues[0].name", "at least 1 chars long"},
		"name of 1,025 bytes":             {queues("[{name: " + strings.Repeat("q", 1025) + "}]"), "spec.queues[0].name", "1024"},
		"name of 1,024 times 4 bytes":     {queues("[{name: a}, {name: " + strings.Repeat("🙂", 1024) + "}]"), "spec.queues[1].name", "at most 1024 bytes"},
		"unknown type":                    {queues("[{name: a, type: list}]"), "spec.queues[0].type", `"List", "Stream", "SortedSet", "Set", "Hash"`},
		"empty type":                      {queues(`[{name: a, type: ""}]`), "spec.queues[0].type", "Unsupported value"},
		"null and a stream":               {queues("[{name: a, type: null, stream: {consumerGroup: g}}]"), "spec.queues[0].stream", "stream is for a queue of type Stream"},
		"empty role":                      {queues(`[{name: a, role: ""}]`), "spec.queues[0].role", "Unsupported value"},
		"empty window":                    {queues(`[{name: a, type: SortedSet, sortedSet: {window: ""}}]`), "spec.queues[0].sortedSet.window", "Unsupported value"},
		"empty unit":                      {queues(`[{name: a, type: SortedSet, sortedSet: {scoreUnit: ""}}]`), "spec.queues[0].sortedSet.scoreUnit", "Unsupported value"},
		"null window and a unit":          {queues("[{name: a, type: SortedSet, sortedSet: {window: null, scoreUnit: ms}}]"), "spec.queues[0].sortedSet.scoreUnit", "for the windows Due and Live"},
		"unknown role":                    {queues("[{name: a, role: Delayed}]"), "spec.queues[0].role", `"Waiting", "InProgress"`},
		"role of a stream":                {queues("[{name: w}, {name: a, type: Stream, role: InProgress}]"), "spec.queues[1].role", "a Stream has no role"},
		"the usual role of a stream":      {queues("[{name: a, type: Stream, role: Waiting}]"), "spec.queues[0].role", "a Stream has no role"},
		"stream without a type":           {queues("[{name: a, stream: {consumerGroup: g}}]"), "spec.queues[0].stream", "stream is for a queue of type Stream"},
		"stream of a sorted set":          {queues("[{name: a, type: SortedSet, stream: {consumerGroup: g}}]"), "spec.queues[0].stream", "stream is for a queue of type Stream"},
		"sortedSet without a type":        {queues("[{name: a, sortedSet: {window: Due}}]"), "spec.queues[0].sortedSet", "sortedSet is for a queue of type SortedSet"},
		"sortedSet of a set":              {queues("[{name: a, type: Set, sortedSet: {}}]"), "spec.queues[0].sortedSet", "sortedSet is for a queue of type SortedSet"},
		"stream with nothing said":        {queues("[{name: a, type: Stream, stream: {}}]"), "spec.queues[0].stream.consumerGroup", "Required value"},
		"unit of all":                     {queues("[{name: a, type: SortedSet, sortedSet: {scoreUnit: BullMQ}}]"), "spec.queues[0].sortedSet.scoreUnit", "for the windows Due and Live"},
		"empty group":                     {queues(`[{name: a, type: Stream, stream: {consumerGroup: ""}}]`), "spec.queues[0].stream.consumerGroup", "at least 1 chars long"},
		"group of 1,025 characters":       {queues("[{name: a, type: Stream, stream: {consumerGroup: " + strings.Repeat("g", 1025) + "}}]"), "spec.queues[0].stream.consumerGroup", "1024"},
		"unknown window":                  {queues("[{name: a, type: SortedSet, sortedSet: {window: due}}]"), "spec.queues[0].sortedSet.window", `"All", "Due", "Live"`},
		"unknown unit":                    {queues("[{name: a, type: SortedSet, sortedSet: {scoreUnit: us}}]"), "spec.queues[0].sortedSet.scoreUnit", `"s", "ms", "ns", "BullMQ"`},
		"threshold 0 of its own":          {queues("[{name: a, threshold: 0}]"), "spec.queues[0].threshold", "greater than or equal to 1"},
		"negative threshold of its own":   {queues("[{name: a, threshold: -1}]"), "spec.queues[0].threshold", "greater than or equal to 1"},
		"fractional threshold of its own": {queues("[{name: a, threshold: 1.5}]"), "spec.queues[0].threshold", "must be of type integer"},
		"none without its threshold":      {queues("[{name: a, threshold: 1}]") + "\nthreshold: null", "spec.threshold", "Required value"},
		"only in progress":                {queues("[{name: a, role: InProgress}]"), "spec.queues", "at least one queue must be Waiting"},
		"several, only in progress":       {queues("[{name: a, role: InProgress}, {name: b, type: Set, role: InProgress}]"), "spec.queues", "at least one queue must be Waiting"},
		"unknown calculation":             {"queuesCalculation: sum", "spec.queuesCalculation", `"Sum", "Max", "Min", "Avg"`},
		"Max with in progress":            {inProgress + "\nqueuesCalculation: Max", "spec.queuesCalculation", sumOnly},
		"Min with in progress":            {inProgress + "\nqueuesCalculation: Min", "spec.queuesCalculation", sumOnly},
		"Avg with in progress":            {inProgress + "\nqueuesCalculation: Avg", "spec.queuesCalculation", sumOnly},
		"same list as waiting and taken":  {queues("[{name: a}, {name: a, role: InProgress}]"), "spec.queues", twice},
		"same list, other threshold":      {queues("[{name: a}, {name: b}, {name: a, threshold: 2}]"), "spec.queues", twice},
		"same long name":                  {queues(strings.Replace(longNames("{name: %s}", 16), "15}]", "14}]", 1)), "spec.queues", twice},
	})
}

// A key may be named twice only where no message of it can count twice: by two groups of a stream, and by the two sides
// of one moment in a sorted set.
func TestTwoEntriesOfOneKey(t *testing.T) {
	t.Parallel()
	const due, live = "window: Due", "window: Live"
	stream := func(group string) string { return "type: Stream, stream: {consumerGroup: " + group + "}" }
	sorted := func(window, unit string) string {
		return "type: SortedSet, sortedSet: {" + window + ", scoreUnit: " + unit + "}"
	}
	const dueByDefault, liveByDefault = "type: SortedSet, sortedSet: {window: Due}", "type: SortedSet, sortedSet: {window: Live}"
	entries := []string{
		"type: List", "role: Waiting", "type: Set", "type: Hash", "type: Stream", stream("g"), stream("h"), "type: SortedSet",
		"type: SortedSet, sortedSet: {}", sorted("window: All", "s"), dueByDefault, liveByDefault,
		sorted(due, "s"), sorted(live, "s"), sorted(due, "ms"), sorted(live, "ms"),
	}
	accepted := map[[2]string]bool{
		{stream("g"), stream("h")}:              true,
		{sorted(due, "s"), sorted(live, "s")}:   true,
		{sorted(due, "ms"), sorted(live, "ms")}: true,
		{dueByDefault, liveByDefault}:           true,
		{dueByDefault, sorted(live, "s")}:       true,
		{sorted(due, "s"), liveByDefault}:       true,
	}
	for _, first := range entries {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			api := newClient(g)
			for _, second := range entries {
				err := try(t.Context(), api, specified(g, queues("[{name: a, "+first+"}, {name: a, "+second+"}]")))
				if accepted[[2]string{first, second}] || accepted[[2]string{second, first}] {
					g.Expect(err).NotTo(HaveOccurred(), second)
					continue
				}
				g.Expect(err).To(HaveOccurred(), second)
				expectRefused(g, err, "spec.queues", "no message may count twice")
			}
		})
	}
}

// The operator sets the defaults of the items of lists.
func TestDefaultsOfQueues(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sent := specified(g, queues(`
- name: a
- {name: b, type: Stream}
- {name: c, type: SortedSet}
- {name: d, type: SortedSet, sortedSet: {window: Due}}
- {name: e, type: SortedSet, sortedSet: {}}`))
	sent.SetName("default-queues")
	g.Expect(api.Create(t.Context(), sent)).To(Succeed())

	stored := object(g)
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sent), stored)).To(Succeed())
	spec := stored.Object["spec"]
	g.Expect(spec).To(HaveKeyWithValue("queuesCalculation", "Sum"))
	g.Expect(spec).To(HaveKeyWithValue("queues", []any{
		map[string]any{"name": "a"},
		map[string]any{"name": "b", "type": "Stream"},
		map[string]any{"name": "c", "type": "SortedSet"},
		map[string]any{"name": "d", "type": "SortedSet", "sortedSet": map[string]any{"window": "Due"}},
		map[string]any{"name": "e", "type": "SortedSet", "sortedSet": map[string]any{}},
	}))
}

// What a client stores again after it decoded it must be what was there.
func TestTypedUpdateKeepsQueues(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sent := specified(g, queues(`
- {name: a, threshold: 1}
- {name: b, role: InProgress, threshold: 1}
- {name: c, type: Stream}
- {name: c2, type: Stream, stream: {consumerGroup: g}}
- {name: d, type: SortedSet, sortedSet: {window: Due, scoreUnit: BullMQ}}`))
	sent.SetName("typed-queues")
	g.Expect(api.Create(t.Context(), sent)).To(Succeed())
	var typed scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sent), &typed)).To(Succeed())

	typed.Labels = map[string]string{"edited": "yes"}
	g.Expect(api.Update(t.Context(), &typed)).To(Succeed())

	stored := object(g)
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sent), stored)).To(Succeed())
	g.Expect(stored.GetLabels()).To(HaveKey("edited"))
	for _, either := range []*unstructured.Unstructured{sent, stored} {
		unstructured.RemoveNestedField(either.Object, "spec", "jobTemplate") // Kubernetes' types add empty fields to it
	}
	g.Expect(stored.Object["spec"]).To(Equal(sent.Object["spec"]))
}
