// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs tests that the documentation is complete where that can be told.
package docs

import (
	"flag"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

const (
	root           = "../../.."
	conditionTypes = "api/v1/condition_types.go"
	conditionsPage = "docs/reference/conditions.md"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(root, path)))(NewWithT(t))
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
	file := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0))(g)
	var values []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		literal, is := spec.Values[0].(*ast.BasicLit)
		g.Expect(is).To(BeTrue(), spec.Names[0].Name)
		value := must.Get(strconv.Unquote(literal.Value))(g)
		values = append(values, value)
		return true
	})
	return values
}

// The table of conditions is the list of what each condition can say. Ready repeats the reasons of two others.
func TestEveryReasonOfEveryConditionHasItsEntryInTroubleshooting(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sections := strings.Split(read(t, "docs/operations/troubleshooting.md"), "\n## ")
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

func TestConditionsPageNamesEveryConditionAndReason(t *testing.T) {
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

// A suite that names a reason provokes it.
func TestEveryReasonIsInASuite(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var suites strings.Builder
	files := must.Get(filepath.Glob(filepath.Join(root, "test/suites/*/*_test.go")))(g)
	for _, path := range files {
		content := must.Get(os.ReadFile(path))(g)
		suites.Write(content)
	}
	named := all(`scaledjobv1\.(Reason\w+)`, suites.String())
	reasons := all(`(?m)^\t(Reason\w+) += "`, read(t, conditionTypes))
	g.Expect(reasons).NotTo(BeEmpty())
	for _, reason := range reasons {
		g.Expect(named).To(ContainElement(reason))
	}
}

// conditionTable is the table of conditions: the reasons of each condition.
func conditionTable(t *testing.T) map[string][]string {
	t.Helper()
	_, table, found := strings.Cut(read(t, conditionsPage), "## Conditions")
	NewWithT(t).Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(table, "\n## ")
	reasons := map[string][]string{}
	for line := range strings.Lines(table) {
		if kind, rest, isRow := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); isRow && strings.HasPrefix(line, "| `") {
			rest, _, _ = strings.Cut(rest, "the reason of")
			reasons[kind] = all("`(\\w+)`", rest)
		}
	}
	return reasons
}

// An event has a reason of its own, or that of the condition whose loss it reports.
func TestEveryEventIsDocumented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, table, found := strings.Cut(read(t, conditionsPage), "## Events")
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
		return slices.Contains([]string{"AtMaxPending", "AtMaxReplicas", "NotLimited", "Suspended"}, reason)
	})
	g.Expect(documented).To(ConsistOf(slices.Concat(own, lost, pausing, []string{"InvalidSpec"})))
}

func TestEveryFlagOfTheLogIsDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	(&zap.Options{}).BindFlags(flags)
	flags.VisitAll(func(each *flag.Flag) { names = append(names, each.Name) })
	NewWithT(t).Expect(all("(?m)^- \\*\\*`--(zap-[\\w-]+)[=`]", read(t, "docs/reference/flags.md"))).To(ConsistOf(names))
}

func TestEveryPackageHasItsLineInTheArchitecture(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	packages := []string{"internal/redis"} // The table has one line for all below it, and a table of their own.
	for _, tree := range []string{"internal", "test/kit"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, tree), func(path string, _ fs.DirEntry, err error) error {
			if folder, _ := filepath.Rel(root, filepath.Dir(path)); strings.HasSuffix(path, ".go") && !insideOf(folder, packages) {
				packages = append(packages, folder)
			}
			return err
		})).To(Succeed())
	}
	named := all("(?m)^\\| `((?:internal|test/kit)/[\\w/]+)` \\|", read(t, "docs/contributing/architecture.md"))
	g.Expect(named).To(ConsistOf(packages))
}

// insideOf says whether a folder is one of these packages, or belongs to a package of the kit that has folders of its
// own.
func insideOf(folder string, packages []string) bool {
	return slices.ContainsFunc(packages, func(known string) bool {
		return folder == known || strings.HasPrefix(known, "test/kit/") && strings.HasPrefix(folder, known+"/")
	})
}

// A package imports packages of lower layers only, or what lies in the same folder.
func TestPackagesImportLowerLayersOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	layers := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([\\w/]+)` \\|.*\\| (\\d) \\|$").FindAllStringSubmatch(read(t, "docs/contributing/architecture.md"), -1) {
		layers[row[1]], _ = strconv.Atoi(row[2])
	}
	layerOf := func(folder string) (part string, layer int) {
		for part = folder; part != "."; part = filepath.Dir(part) {
			if layer, found := layers[part]; found {
				return part, layer
			}
		}
		return part, -1
	}
	for _, tree := range []string{"api", "cmd", "internal"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, tree), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			folder, _ := filepath.Rel(root, filepath.Dir(path))
			part, layer := layerOf(folder)
			g.Expect(layer).To(BeNumerically(">=", 0), folder)
			for _, imported := range all(`"`+module+`([^"]+)"`, read(t, filepath.Join(folder, filepath.Base(path)))) {
				below, its := layerOf(imported)
				g.Expect(below == part || its < layer).To(BeTrue(), "%s imports %s", folder, imported)
			}
			return nil
		})).To(Succeed())
	}
}

// namedPath is a path of the repository as prose, a command or a glob names it.
var namedPath = regexp.MustCompile(`(?:^|[^\w./])((?:api|charts|cmd|config|docs|hack|internal|test)/[\w./*-]*\w)`)

// Whatever is moved or renamed, nothing goes on naming it: no document, no target of make, no rule of the linter.
func TestPathsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, file := range append(documents(t), "Makefile", ".golangci.yml", ".ci/run", "Dockerfile", ".dockerignore") {
		text := strings.NewReplacer("/**/", "/*/", "**/", "", "../", "", "./", "").Replace(read(t, file))
		for _, path := range all(namedPath.String(), text) {
			g.Expect(filepath.Glob(filepath.Join(root, path))).NotTo(BeEmpty(), "%s names %s", file, path)
		}
	}
}

// A Go file that a document mentions by its name alone is somewhere in the tree.
func TestFilesThatDocumentsMentionExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var existing []string
	for _, tree := range []string{"api", "cmd", "hack", "internal", "test"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, tree), func(path string, _ fs.DirEntry, err error) error {
			existing = append(existing, filepath.Base(path))
			return err
		})).To(Succeed())
	}
	for _, document := range documents(t) {
		for _, file := range all("`(\\w+\\.go)`", read(t, document)) {
			g.Expect(existing).To(ContainElement(file), "%s mentions %s", document, file)
		}
	}
}

// A name of the code that a document mentions, as `queue.Reader`, is declared in a package of that name.
func TestNamesThatDocumentsMentionAreDeclared(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	declared := declarations(t)
	for _, document := range documents(t) {
		for _, mention := range regexp.MustCompile("`(\\w+)\\.([A-Z]\\w+)").FindAllStringSubmatch(read(t, document), -1) {
			if names, isOurs := declared[mention[1]]; isOurs {
				g.Expect(names).To(ContainElement(mention[2]), "%s mentions %s.%s", document, mention[1], mention[2])
			}
		}
	}
}

// declarations are the names that each package declares.
func declarations(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	NewWithT(t).Expect(filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		folder := filepath.Base(filepath.Dir(path))
		names[folder] = append(names[folder], all(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)([A-Z]\w*)\b`, string(content))...)
		return err
	})).To(Succeed())
	return names
}

// documents are all pages of the documentation.
func documents(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	found := must.Get(filepath.Glob(filepath.Join(root, "*.md")))(g)
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	g.Expect(filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			relative, relErr := filepath.Rel(root, path)
			g.Expect(relErr).NotTo(HaveOccurred())
			found = append(found, relative)
		}
		return err
	})).To(Succeed())
	return found
}

// What is said to answer a threat is shown to do so, by tests that exist.
func TestEveryThreatNamesItsTests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, table, found := strings.Cut(read(t, "docs/contributing/threats.md"), "| threat | answer | test |")
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

// The version of Kueue that the pages name is the one that the suite runs.
func TestTheVersionOfKueueIsThatOfItsSuite(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pinned := all(`(?m)^\s*sigs\.k8s\.io/kueue v(\S+)`, read(t, "hack/tools/kueue/go.mod"))
	g.Expect(pinned).To(HaveLen(1))
	for page, pattern := range map[string]string{
		"docs/how-to/kueue.md": `\bv?(\d+\.\d+\.\d+)\b`, "docs/reference/compatibility.md": `(?m)Kueue.*?\b(\d+\.\d+\.\d+)\b`,
		"docs/contributing/test-environment.md": `(?m)Kueue (\d+\.\d+\.\d+)\b`,
	} {
		g.Expect(all(pattern, read(t, page))).To(And(Not(BeEmpty()), HaveEach(pinned[0])), page)
	}
}

// codeSpan is code in a line, such as a pattern, which may look like a link.
var codeSpan = regexp.MustCompile("`[^`\n]+`")

// A link leads to a file that exists, and to a heading of it.
func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, document := range documents(t) {
		for _, link := range all(`\]\(([^)\s]+)\)`, codeSpan.ReplaceAllString(read(t, document), "")) {
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

// anchors are the fragments that lead to the headings of a document. The second heading of the same text
// has the anchor of the first with "-1".
func anchors(document string) []string {
	var found []string
	times := map[string]int{}
	for _, heading := range all(`(?m)^#+ (.+)$`, document) {
		plain := regexp.MustCompile(`[^\w\s-]`).ReplaceAllString(strings.ToLower(heading), "")
		anchor := strings.ReplaceAll(plain, " ", "-")
		if times[anchor]++; times[anchor] > 1 {
			found = append(found, fmt.Sprintf("%s-%d", anchor, times[anchor]-1))
			continue
		}
		found = append(found, anchor)
	}
	return found
}
