// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

const (
	// document is the one that names the differences, and examples has manifests with all that the documentation of KEDA
	// shows of its ScaledJobs and its Redis triggers.
	document = "../../../docs/how-to/migrate-from-keda.md"
	examples = "../../../internal/cli/convert/testdata/keda"
)

// place is a row of a table in the document: the heading above the table, and how the row begins.
type place struct{ heading, row string }

// The headings of the document.
const (
	fields     = "## Fields"
	parameters = "### Parameters of the Redis triggers"
	numbers    = "## Different numbers of Jobs"
)

// withKEDA skips a test that needs KEDA in make test.
func withKEDA(t *testing.T) {
	t.Helper()
	skip.UnderShort(t, "KEDA takes minutes to build")
}

func TestBothCreateTheSameJobsUnlessTheDocumentSaysOtherwise(t *testing.T) {
	t.Parallel()
	withKEDA(t)
	for _, each := range rows() {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			each.play(t)
		})
	}
}

// What the document names is what the rows refer to, by its own words.
func TestEachNamedDifferenceIsInTheDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	for _, row := range rows() {
		for _, step := range row.steps {
			if step.named != (place{}) {
				g.Expect(step.named.in(string(content))).To(BeTrue(), "%s, %s: %s | %s", row.name, step.what, step.named.heading, step.named.row)
			}
		}
	}
}

// in reports whether a document has the row in a table below the heading.
func (p place) in(document string) bool {
	_, section, found := strings.Cut(document, "\n"+p.heading+"\n")
	if next := regexp.MustCompile(`(?m)^#{1,3} `).FindStringIndex(section); next != nil {
		section = section[:next[0]]
	}
	return found && strings.Contains(section, "\n| "+p.row)
}

// A row proves something only if it fails where it should.
func TestADifferenceThatNoRowNamesFails(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	named := place{numbers, "`eager`"}
	g.Expect(step{keda: 2, ours: 2}.judge(2, 2)).To(Succeed())
	g.Expect(step{keda: 2, ours: 3, named: named}.judge(2, 3)).To(Succeed())
	g.Expect(step{keda: 2, ours: 3}.judge(2, 3)).To(MatchError(ContainSubstring("no row of the document is named")))
	g.Expect(step{keda: 2, ours: 2}.judge(2, 3)).To(MatchError(And(
		ContainSubstring("KEDA has created 2 Jobs and the operator 3, where 2 and 2 are expected"), ContainSubstring("no row of the document"),
	)))
	g.Expect(step{keda: 2, ours: 2, named: named}.judge(2, 2)).To(MatchError(ContainSubstring("names a difference")))
	g.Expect(step{keda: 3, ours: 3}.judge(2, 2)).To(MatchError(ContainSubstring("are expected")))
	g.Expect(place{numbers, "`lazy`"}.in("\n" + numbers + "\n\n| `eager` | x |\n\n## Next\n| `lazy` |")).To(BeFalse())
}

// The comparison sees Jobs, not only manifests: with a threshold that convert did not write, the numbers differ.
func TestAWrongConversionIsSeen(t *testing.T) {
	t.Parallel()
	withKEDA(t)
	g := NewWithT(t)
	s := row{spec: list("messages", "2"), completed: "{threshold: 4}"}.stage(t)
	t.Cleanup(s.remove)
	push("messages", 8)(s)
	s.look()
	keda, ours := s.settle(2)
	g.Expect([]int{keda, ours}).To(Equal([]int{4, 2}))
	g.Expect(step{keda: 4, ours: 4}.judge(keda, ours)).To(MatchError(ContainSubstring("no row of the document is named")))
}

// A row is for each ScaledJob of the examples, but those that KEDA itself does not accept.
func TestEachExampleHasItsRow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := must.Get(filepath.Glob(filepath.Join(examples, "*.yaml")))(g)
	var all, played []string
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(g)
		for _, object := range must.Get(manifests.Parse(string(content)))(g) {
			if object.GetKind() == "ScaledJob" && filepath.Base(file) != "impossible.yaml" {
				all = append(all, filepath.Base(file)+" "+object.GetName())
			}
		}
	}
	for _, row := range rows() {
		if row.example != "" {
			played = append(played, row.example)
		}
	}
	g.Expect(played).To(ConsistOf(all))
}

// KEDA accepts a name with which it can create no Job.
func TestANameOf64Characters(t *testing.T) {
	t.Parallel()
	withKEDA(t)
	g := NewWithT(t)
	name := strings.Repeat("a", 64)
	named := place{numbers, "a name of 64 characters"}
	content := must.Get(os.ReadFile(document))(g)
	g.Expect(named.in(string(content))).To(BeTrue())
	namespace := control.Cluster.NewNamespace(t, "migration")
	object := markerFor(namespace, markers.Addr())
	object.SetName(name)
	s := &stage{Gomega: g, t: t, namespace: namespace, name: name, theirs: object}
	converted := row{}.convert(s, []*unstructured.Unstructured{object})
	g.Expect(control.Cluster.Apply(t.Context(), strings.NewReader(converted))).To(MatchError(ContainSubstring("at most 63 characters")))
	g.Expect(markers.Client().RPush(t.Context(), marker+"-64", "message").Err()).To(Succeed())
	g.Expect(unstructured.SetNestedSlice(object.Object, []any{map[string]any{
		"type": "redis", "metadata": map[string]any{"address": markers.Addr(), "listName": marker + "-64"},
	}}, "spec", "triggers")).To(Succeed())
	g.Expect(control.API.Create(t.Context(), object)).To(Succeed())
	t.Cleanup(s.remove)
	g.Eventually(func() int { return s.logged(name).looks }).Should(BeNumerically(">", 1))
	g.Expect(control.AllJobs.EverIn(namespace)).To(BeZero())
}
