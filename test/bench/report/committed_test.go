// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

const (
	root            = "../../.."
	publishedFolder = root + "/docs/contributing/benchmarks"
	// typed is a measured figure in a table.
	typed = `(?m)^\|.*\d (ms|Jobs/s|cores|MB|per second)\b`
)

// publishedPages are those that are drawn. The first one has everything, and figures are typed into none of these tables.
var publishedPages = []string{"docs/contributing/benchmarks.md", "docs/explanation/performance.md", "docs/explanation/comparison.md", "README.md"}

// Nobody types a figure: what is between the comments of a page is what the results that are committed give. What none
// of them has is empty.
func TestPagesHaveTheFiguresOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	for i, page := range publishedPages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			expectDrawn(t, page, i == 0)
		})
	}
}

func expectDrawn(t *testing.T, page string, everything bool) {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(publishedFolder, "*.json"))
	g.Expect(err).NotTo(HaveOccurred())
	runs, err := results.Read(files...)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, page))
	g.Expect(err).NotTo(HaveOccurred())
	drawn, err := drawFile(filepath.Join(root, page), publishedFolder, runs, everything)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(drawn.page).To(Equal(string(text)), "run make bench-report RESULTS='docs/contributing/benchmarks/*.json'")
	for _, found := range block.FindAllStringSubmatch(drawn.page, -1) {
		if slices.Contains(drawn.unmeasured, strings.Join(strings.Fields(found[2]), " ")) {
			g.Expect(found[3]).To(BeEmpty(), "no results of "+found[2]+" are committed, but there are figures")
		}
	}
	g.Expect(block.ReplaceAllString(drawn.page, "")).NotTo(MatchRegexp(typed), "a table with figures that are not drawn")
	for name, picture := range drawn.files {
		file, err := os.ReadFile(filepath.Join(publishedFolder, name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(file)).To(Equal(picture), name+" is out of date")
	}
	for _, p := range drawn.plots {
		file, err := os.ReadFile(filepath.Join(publishedFolder, p.File))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(file)).To(HaveSuffix("<!-- "+p.Sum+" -->\n"), p.File+" is out of date")
	}
}
