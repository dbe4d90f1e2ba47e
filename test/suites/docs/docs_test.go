// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs tests that the documentation is complete where that can be told.
package docs

import (
	"flag"
	"fmt"
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

// files are those below these folders whose names end so, as paths below the root.
func files(t *testing.T, ending string, folders ...string) []string {
	t.Helper()
	g := NewWithT(t)
	var found []string
	for _, folder := range folders {
		g.Expect(filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ending) {
				found = append(found, must.Get(filepath.Rel(root, path))(g))
			}
			return err
		})).To(Succeed())
	}
	return found
}

// productFiles are the Go files below these folders that are no tests.
func productFiles(t *testing.T, folders ...string) []string {
	t.Helper()
	isTest := func(path string) bool { return strings.HasSuffix(path, "_test.go") }
	return slices.DeleteFunc(files(t, ".go", folders...), isTest)
}

// section is the part of a document from this text on, up to the next heading of the second level.
func section(t *testing.T, path, from string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, path), from)
	NewWithT(t).Expect(found).To(BeTrue(), "%s has no %q", path, from)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
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
	values := all(`(?m)^(?:\t|const )`+prefix+`[A-Z]\w* += (.+)$`, read(t, path))
	for i, literal := range values {
		values[i] = must.Get(strconv.Unquote(literal))(g)
	}
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
	for _, path := range must.Get(filepath.Glob(filepath.Join(root, "test/suites/*/*_test.go")))(g) {
		suites.Write(must.Get(os.ReadFile(path))(g))
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
	table := section(t, conditionsPage, "## Conditions")
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
	table := section(t, conditionsPage, "## Events")
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
	for _, path := range files(t, ".go", "internal", "test/kit") {
		if folder := filepath.Dir(path); !insideOf(folder, packages) {
			packages = append(packages, folder)
		}
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
	for _, path := range productFiles(t, "api", "cmd", "internal") {
		folder := filepath.Dir(path)
		part, layer := layerOf(folder)
		g.Expect(layer).To(BeNumerically(">=", 0), folder)
		for _, imported := range all(`"`+module+`([^"]+)"`, read(t, path)) {
			below, its := layerOf(imported)
			g.Expect(below == part || its < layer).To(BeTrue(), "%s imports %s", folder, imported)
		}
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
	for _, path := range files(t, ".go", "api", "cmd", "hack", "internal", "test") {
		existing = append(existing, filepath.Base(path))
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
	for _, path := range productFiles(t, "internal") {
		folder := filepath.Base(filepath.Dir(path))
		here := all(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)([A-Z]\w*)\b`, read(t, path))
		names[folder] = append(names[folder], here...)
	}
	return names
}

// documents are all pages of the documentation.
func documents(t *testing.T) []string {
	t.Helper()
	found := must.Get(filepath.Glob(filepath.Join(root, "*.md")))(NewWithT(t))
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	return append(found, files(t, ".md", "docs")...)
}

// What is said to answer a threat is shown to do so, by tests that exist.
func TestEveryThreatNamesItsTests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	table := section(t, "docs/contributing/threats.md", "| threat | answer | test |")
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
	var names []string
	for _, path := range files(t, "_test.go", "cmd", "internal", "test") {
		names = append(names, all(`(?m)^func ((?:Test|Fuzz)\w+)\(`, read(t, path))...)
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

// prose returns a document without its code, such as a pattern, which may look like a link.
func prose(document string) string {
	for _, code := range []string{"(?ms)^ *```.*?^ *```$", "`[^`\n]+(?:\n[^`\n]+)*`"} {
		document = regexp.MustCompile(code).ReplaceAllString(document, "")
	}
	return document
}

// A link leads to a file that exists, and to a heading of it.
func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, document := range documents(t) {
		for _, link := range all(`\]\(([^)\s]+)\)`, prose(read(t, document))) {
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
