// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

const (
	publishedPage   = "../../../docs/performance.md"
	publishedFolder = "../../../docs/performance"
)

// Nobody types a figure: what is between the comments of the page is what the results that are committed give.
func TestThePageHasTheFiguresOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	text, err := os.ReadFile(publishedPage)
	g.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(publishedFolder, "*.json"))
	g.Expect(err).NotTo(HaveOccurred())
	if len(files) == 0 {
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			g.Expect(found[3]).To(BeEmpty(), "no results are committed, but there are figures of "+found[2])
		}
		return
	}
	runs, err := results.Read(files...)
	g.Expect(err).NotTo(HaveOccurred())
	drawn, err := draw(string(text), filepath.Base(publishedFolder), runs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(drawn.page).To(Equal(string(text)), "run make bench-report RESULTS='docs/performance/*.json'")
	g.Expect(drawn.unmeasured).To(BeEmpty())
	for _, p := range drawn.plots {
		file, err := os.ReadFile(filepath.Join(publishedFolder, p.File))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(file)).To(HaveSuffix("<!-- "+p.Sum+" -->\n"), p.File+" is out of date")
	}
}
