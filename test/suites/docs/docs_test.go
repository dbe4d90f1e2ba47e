// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs tests that the documentation is complete where that can be told.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"miracle.dev/scaledjob-operator/internal/metrics"
)

const (
	root           = "../../.."
	conditionTypes = "api/v1/condition_types.go"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// all are the first groups of all matches.
func all(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// constants are the values of the string constants in a file whose names begin so.
func constants(t *testing.T, path, prefix string) []string {
	t.Helper()
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
	g.Expect(err).NotTo(HaveOccurred())
	var values []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		literal, is := spec.Values[0].(*ast.BasicLit)
		g.Expect(is).To(BeTrue(), spec.Names[0].Name)
		value, err := strconv.Unquote(literal.Value)
		g.Expect(err).NotTo(HaveOccurred())
		values = append(values, value)
		return true
	})
	return values
}

// The table of the concepts is the list of what each condition can say. Ready repeats the reasons of two others.
func TestEveryReasonOfEveryConditionHasItsEntryInTroubleshooting(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sections := strings.Split(read(t, "docs/troubleshooting.md"), "\n## ")
	for kind, reasons := range conditionTable(t) {
		if len(reasons) == 0 {
			continue // Stalled and Reconciling, which repeat those of Ready.
		}
		var entries []string
		for _, section := range sections {
			if strings.HasPrefix(section, kind+"\n") {
				entries = all(`(?m)^### (\w+)$`, section)
			}
		}
		g.Expect(entries).To(ConsistOf(reasons), kind)
	}
}

func TestConceptsNameEveryConditionAndReason(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var kinds, reasons []string
	for kind, its := range conditionTable(t) {
		kinds = append(kinds, kind)
		reasons = append(reasons, its...)
	}
	slices.Sort(reasons)
	g.Expect(kinds).To(ConsistOf(constants(t, conditionTypes, "Condition")))
	g.Expect(slices.Compact(reasons)).To(ConsistOf(constants(t, conditionTypes, "Reason")))
}

// conditionTable is the table of the concepts: the reasons of each condition.
func conditionTable(t *testing.T) map[string][]string {
	t.Helper()
	_, table, found := strings.Cut(read(t, "docs/concepts.md"), "## Conditions")
	NewWithT(t).Expect(found).To(BeTrue())
	reasons := map[string][]string{}
	for line := range strings.Lines(table) {
		if kind, rest, isRow := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); isRow && strings.HasPrefix(line, "| `") {
			rest, _, _ = strings.Cut(rest, "the reason of")
			reasons[kind] = all("`(\\w+)`", rest)
		}
	}
	return reasons
}

// An event has a reason of its own, or that of the condition whose loss it tells of.
func TestEveryEventIsDocumented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, table, found := strings.Cut(read(t, "docs/troubleshooting.md"), "## Events")
	g.Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(table, "\n## ")
	var documented []string
	for _, row := range all("(?m)^\\| (`[^|]+) \\|", table) {
		documented = append(documented, all("`(\\w+)`", row)...)
	}
	own := constants(t, "internal/report/events.go", "event")
	reasons := conditionTable(t)
	lost := slices.DeleteFunc(reasons["QueueConnected"], func(reason string) bool {
		return slices.Contains([]string{"Connected", "Unreachable"}, reason)
	})
	pausing := slices.DeleteFunc(reasons["ScalingLimited"], func(reason string) bool {
		return slices.Contains([]string{"AtMaxReplicas", "NotLimited"}, reason)
	})
	g.Expect(documented).To(ConsistOf(slices.Concat(own, lost, pausing, []string{"InvalidSpec"})))
}

func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	registry := &recorder{}
	metrics.New(registry)
	var names []string
	for _, collector := range registry.collectors {
		descriptions := make(chan *prometheus.Desc, 1)
		collector.Describe(descriptions)
		names = append(names, all(`fqName: "(\w+)"`, (<-descriptions).String())...)
	}
	NewWithT(t).Expect(all("(?m)^\\| `(scaledjob_\\w+)` \\|", read(t, "docs/metrics.md"))).To(ConsistOf(names))
}

// recorder is a registry that only remembers.
type recorder struct{ collectors []prometheus.Collector }

func (r *recorder) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return nil
}

func (r *recorder) MustRegister(c ...prometheus.Collector) { r.collectors = append(r.collectors, c...) }

func (r *recorder) Unregister(prometheus.Collector) bool { return false }

func TestEveryPackageHasItsLineInTheArchitecture(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folders, err := os.ReadDir(filepath.Join(root, "internal"))
	g.Expect(err).NotTo(HaveOccurred())
	var packages []string
	for _, folder := range folders {
		packages = append(packages, folder.Name())
	}
	g.Expect(all("(?m)^\\| `internal/(\\w+)` \\|", read(t, "docs/architecture.md"))).To(ConsistOf(packages))
}

// What is said to answer a threat is shown to do so, by tests that exist.
func TestEveryThreatNamesItsTests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, table, found := strings.Cut(read(t, "docs/security.md"), "| threat | answer | test |")
	g.Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(table, "\n## ")
	existing := testFunctions(t)
	rows := all(`(?m)^\| ([^|-].*) \|$`, table)
	g.Expect(len(rows)).To(BeNumerically(">", 10))
	for _, row := range rows {
		cells := strings.Split(row, " | ")
		named := all("`((?:Test|Fuzz)\\w+)`", cells[len(cells)-1])
		g.Expect(named).NotTo(BeEmpty(), cells[0])
		missing := slices.DeleteFunc(named, func(name string) bool { return slices.Contains(existing, name) })
		g.Expect(missing).To(BeEmpty(), cells[0])
	}
}

// testFunctions are the names of all tests and fuzz targets.
func testFunctions(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	var names []string
	for _, folder := range []string{"cmd", "internal", "test"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			names = append(names, all(`(?m)^func ((?:Test|Fuzz)\w+)\(`, string(content))...)
			return err
		})).To(Succeed())
	}
	return names
}

// A link leads to a file that exists, and to a heading of it.
func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	documents := []string{"README.md", "SECURITY.md"}
	g.Expect(filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			relative, relErr := filepath.Rel(root, path)
			g.Expect(relErr).NotTo(HaveOccurred())
			documents = append(documents, relative)
		}
		return err
	})).To(Succeed())
	for _, document := range documents {
		for _, link := range all(`\]\(([^)\s]+)\)`, read(t, document)) {
			path, fragment, _ := strings.Cut(link, "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			g.Expect(filepath.Join(root, target)).To(Or(BeAnExistingFile(), BeADirectory()), "%s links to %s", document, link)
			if fragment != "" {
				g.Expect(anchors(read(t, target))).To(ContainElement(fragment), "%s links to %s", document, link)
			}
		}
	}
}

// anchors are the fragments that lead to the headings of a document.
func anchors(document string) []string {
	var found []string
	for _, heading := range all(`(?m)^#+ (.+)$`, document) {
		plain := regexp.MustCompile(`[^\w\s-]`).ReplaceAllString(strings.ToLower(heading), "")
		found = append(found, strings.ReplaceAll(plain, " ", "-"))
	}
	return found
}
