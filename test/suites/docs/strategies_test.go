// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/examples"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

var (
	// pop is a command that removes a message, and loop one that comes back to it until there is none. A loop that counts
	// its rounds is none of these: messages may be left behind.
	pop  = regexp.MustCompile(`\b(?:B?[LR]POP|B?LMPOP|SPOP|B?ZPOPMIN)\b`)
	loop = regexp.MustCompile(`\b(?:while|until)\b`)
	// meaning is a comment that says what Default means for a worker that pops its message at the start.
	meaning = regexp.MustCompile(`\bDefault\b[^.]*\bwaits? until\b`)
)

// popsByDefault says whether the workers remove a message at the start and keep it nowhere, and the strategy is
// Default. A message that comes while they work then waits until one of them has ended.
func popsByDefault(g Gomega, manifest map[string]any) bool {
	var sj scaledjobv1.ScaledJob
	text := must.Get(json.Marshal(manifest))(g)
	g.Expect(json.Unmarshal(text, &sj)).To(Succeed())
	if strategy := sj.Spec.ScalingStrategy.Type; strategy != "" && strategy != scaledjobv1.StrategyDefault {
		return false
	}
	return slices.ContainsFunc(sj.Spec.JobTemplate.Spec.Template.Spec.Containers, func(worker corev1.Container) bool {
		script := strings.Join(slices.Concat(worker.Command, worker.Args), "\n")
		first := pop.FindStringIndex(script)
		return first != nil && !loop.MatchString(script[:first[0]])
	})
}

// unexplained are the ScaledJobs of a file whose workers pop at the start by default, and which do not say what it
// means.
func unexplained(g Gomega, text string) []string {
	var names []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object unstructured.Unstructured
		g.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		comments := strings.Join(all(`(?m)^ *# ?(.*)$`, document), " ")
		if object.GetKind() == "ScaledJob" && popsByDefault(g, object.Object) && !meaning.MatchString(comments) {
			names = append(names, object.GetName())
		}
	}
	return names
}

func TestSamplesWhoseWorkersPopAtTheStartSayWhatDefaultMeans(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	samples := files(t, ".yaml", "config/samples")
	g.Expect(samples).NotTo(BeEmpty())
	for _, sample := range samples {
		g.Expect(unexplained(g, read(t, sample))).To(BeEmpty(), sample)
	}
}

func TestExamplesOfDocumentsDoNotPopByDefault(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, document := range examples.Documents {
		found := must.Get(examples.OfDocument(root, document))(g)
		for _, object := range found {
			g.Expect(popsByDefault(g, object.Object)).To(BeFalse(), "%s: %s", document, object.GetName())
		}
	}
}

// The control: what is found, and what is not.
func TestWorkersThatPopAtTheStartAreFound(t *testing.T) {
	t.Parallel()
	const template = `
kind: ScaledJob
metadata: {name: a}
spec:
  jobTemplate: {spec: {template: {spec: {containers: [{name: worker, command: [sh, -c], args: ["SCRIPT"]}]}}}}
`
	const bounded = "for i in $(seq 10); do redis-cli LPOP a; done"
	cases := map[string]struct {
		script, before, after string
		found                 bool
	}{
		"a pop":                       {script: "redis-cli BRPOP a 5", found: true},
		"so many pops":                {script: bounded, found: true},
		"a pop, and Default by name":  {script: bounded, after: "  scalingStrategy: {type: Default}\n", found: true},
		"a comment that says nothing": {script: bounded, before: "# The strategy is Default.", found: true},
		"a comment that says it":      {script: bounded, before: "# With Default, a message that comes later\n# waits until a Job has ended.", found: false},
		"until the list is empty":     {script: "while :; do m=$(redis-cli RPOP a); [ -n \\\"$m\\\" ] || exit 0; done"},
		"moved to a second list":      {script: "redis-cli LMOVE a a:processing RIGHT LEFT"},
		"Accurate":                    {script: bounded, after: "  scalingStrategy: {type: Accurate}\n"},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, c := NewWithT(t), cases[name]
			found := unexplained(g, c.before+strings.Replace(template, "SCRIPT", c.script, 1)+c.after)
			g.Expect(len(found) > 0).To(Equal(c.found))
		})
	}
}
