// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package frameworks

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// document is the page with the table, and pages has those of the frameworks. With -update, the tests write them.
const (
	document = "../../docs/how-to/queues.md"
	pages    = "../../docs/how-to/frameworks"
	// pageWidth is that of the manifests on pages.
	pageWidth = 110
)

var update = flag.Bool("update", false, "write the table of docs/how-to/queues.md, the pages of the frameworks, and the files with what is expected")

func all(g Gomega) []Framework {
	return must.Get(All())(g)
}

func TestTheDocumentHasTheTable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(document))(g)
	before, rest, found := strings.Cut(string(content), "\n| framework |")
	g.Expect(found).To(BeTrue())
	_, after, found := strings.Cut(rest, "\n\n")
	g.Expect(found).To(BeTrue())
	text := before + "\n" + Table(all(g)) + "\n" + after
	if *update {
		g.Expect(os.WriteFile(document, []byte(text), 0o600)).To(Succeed())
		return
	}
	g.Expect(string(content)).To(Equal(text), "make generate writes it")
}

// No page has other keys than the data, and each framework has its page.
func TestThePagesHaveTheManifests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := must.Get(filepath.Glob(pages + "/*.md"))(g)
	shownOn := map[string]string{}
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(g)
		text, shown, err := Page(string(content), all(g), pageWidth)
		g.Expect(err).NotTo(HaveOccurred(), file)
		for _, id := range shown {
			shownOn[id] = strings.TrimSuffix(filepath.Base(file), ".md")
		}
		if *update {
			g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
			continue
		}
		g.Expect(string(content)).To(Equal(text), "make generate writes it")
	}
	expected := map[string]string{}
	for _, f := range all(g) {
		if f.Page != "" {
			expected[f.ID] = f.Page
		}
	}
	g.Expect(shownOn).To(Equal(expected))
}

// The control: a page with another key is changed, and one of an unknown framework is an error.
func TestAPageWithAnotherKeyIsFound(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const begin, end = "<!-- generated: manifest bullmq -->\n", "<!-- end -->"
	text, shown, err := Page("# BullMQ\n"+begin+end+"\nmore", all(g), pageWidth)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shown).To(ConsistOf("bullmq"))
	g.Expect(text).To(And(HavePrefix("# BullMQ\n"+begin), ContainSubstring("- name: bull:emails:wait\n"), HaveSuffix(end+"\nmore")))
	other, _, err := Page(strings.ReplaceAll(text, "bull:emails:wait", "bull:emails:waiting"), all(g), pageWidth)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other).To(Equal(text))
	_, _, err = Page(strings.ReplaceAll(text, "manifest bullmq", "manifest bulmq"), all(g), pageWidth)
	g.Expect(err).To(MatchError(ContainSubstring("bulmq")))
}

// A key that is needed under a condition is a comment, unless the condition is true.
func TestKeysWithAConditionThatIsTrue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, f := range all(g) {
		if f.ID == "celery" {
			choices := Choices{Name: "a", Queue: "a", RedisAddress: "redis:6379", Image: "a", Threshold: 1}
			g.Expect(f.Manifest(choices, 100)).To(ContainSubstring(`  # - name: "a\x06\x163"`))
			choices.With = []string{"with priorities"}
			g.Expect(f.Manifest(choices, 100)).To(ContainSubstring("\n  - name: \"a\\x06\\x163\"\n"))
		}
	}
}

func TestFrameworksAreComplete(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ids := map[string]bool{}
	for _, f := range all(g) {
		g.Expect(ids).NotTo(HaveKey(f.ID))
		ids[f.ID] = true
		g.Expect(f.ID).To(MatchRegexp(`^[a-z]+(-[a-z]+)*$`))
		g.Expect(f.Name).NotTo(BeEmpty(), f.ID)
		accurate := f.Strategy == scaledjobv1.StrategyAccurate
		g.Expect(strings.HasPrefix(f.Number, "as Accurate")).To(Equal(accurate), f.ID)
		g.Expect(f.Keys[0].Condition).To(BeEmpty(), f.ID)
		g.Expect(f.Evidence).To(BeElementOf(Tested, Read), f.ID)
		g.Expect(f.Version == "").To(Equal(f.Page == ""), f.ID)
		for _, note := range f.Notes {
			g.Expect(note).To(HaveSuffix("."), f.ID)
		}
	}
}

// What the API server accepts of the manifests is tested in test/suites/cli.
func TestManifests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, f := range all(g) {
		if f.ID != "bullmq" && f.ID != "celery" {
			continue
		}
		manifest := f.Manifest(Choices{Namespace: "mail", Name: "emails", Queue: "emails", RedisAddress: "redis:6379", Image: "example/worker:1", Threshold: 2}, 100)
		path := "testdata/" + f.ID + ".yaml"
		if *update {
			g.Expect(os.WriteFile(path, []byte(manifest), 0o600)).To(Succeed())
		}
		expected := must.Get(os.ReadFile(path))(g)
		g.Expect(manifest).To(Equal(string(expected)))
	}
}

// A queue may have any name, and is found under it.
func TestQueuesMayHaveAnyName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, queue := range []string{
		"emails", "12", "true", "null", "No", "a: b", "{a}", `"`, "a\nb: c", "'", "#a", "a #b", "é", "a\x00b", "\x06\x16", "-", "a:", ".", "ma\u2028il", "*a", "%Q", "0x1", "a,b",
	} {
		for _, f := range all(g) {
			manifest := f.Manifest(Choices{Name: "a", Queue: queue, RedisAddress: "redis:6379", Image: "a", Threshold: 1}, 100)
			sj := &scaledjobv1.ScaledJob{}
			g.Expect(yaml.UnmarshalStrict([]byte(manifest), sj)).To(Succeed(), manifest)
			for i, key := range f.Keys {
				if key.Condition == "" && i < len(sj.Spec.Queues) {
					g.Expect(sj.Spec.Queues[i].Name).To(Or(Equal(strings.ReplaceAll(key.Name, "$Q", queue)), Equal("unacked")), manifest)
				}
			}
		}
	}
}
