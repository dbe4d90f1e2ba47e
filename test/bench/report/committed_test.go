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
	publishedPage   = "../../../docs/explanation/performance.md"
	publishedFolder = "../../../docs/explanation/performance"
	// typed is a measured figure in a table.
	typed = `(?m)^\|.*\d (ms|Jobs/s|cores|MB|per second)\b`
)

// Nobody types a figure: what is between the comments of the page is what the results that are committed give. What none
// of them has is empty.
func TestThePageHasTheFiguresOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	text, err := os.ReadFile(publishedPage)
	g.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(publishedFolder, "*.json"))
	g.Expect(err).NotTo(HaveOccurred())
	runs, err := results.Read(files...)
	g.Expect(err).NotTo(HaveOccurred())
	drawn, err := draw(string(text), filepath.Base(publishedFolder), runs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(drawn.page).To(Equal(string(text)), "run make bench-report RESULTS='docs/explanation/performance/*.json'")
	for _, found := range block.FindAllStringSubmatch(drawn.page, -1) {
		_, names, _ := strings.Cut(found[2], " ")
		if slices.Contains(drawn.unmeasured, strings.Join(strings.Fields(names), ", ")) {
			g.Expect(found[3]).To(BeEmpty(), "no results of "+names+" are committed, but there are figures")
		}
	}
	g.Expect(block.ReplaceAllString(drawn.page, "")).NotTo(MatchRegexp(typed), "a table with figures that are not drawn")
	for _, p := range drawn.plots {
		file, err := os.ReadFile(filepath.Join(publishedFolder, p.File))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(file)).To(HaveSuffix("<!-- "+p.Sum+" -->\n"), p.File+" is out of date")
	}
}
