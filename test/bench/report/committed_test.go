// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

const (
	root = "../../.."
	// typed is a measured figure in a table.
	typed = `(?m)^\|.*\d (ms|Jobs/s|cores|MB|per second)\b`
	// measuredOnce begins the part of a page whose figures nothing measures any more.
	measuredOnce = "\n## Measured once\n"
)

// Nobody types a figure: what is between the comments of a page is what the committed results give.
func TestPagesHaveTheFiguresOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d := must.Get(draw(root))(g)
	for path, text := range d.files {
		file := must.Get(os.ReadFile(filepath.Join(root, path)))(g)
		g.Expect(string(file)).To(Equal(text), path+" is out of date, run make bench-report")
		page, _, _ := strings.Cut(text, measuredOnce)
		g.Expect(block.ReplaceAllString(page, "")).NotTo(MatchRegexp(typed), path+" has a table with figures that are not drawn")
	}
	g.Expect(d.plots).NotTo(BeEmpty())
	for _, p := range d.plots {
		file := must.Get(os.ReadFile(filepath.Join(root, folder, p.File)))(g)
		g.Expect(string(file)).To(HaveSuffix("<!-- "+p.Sum+" -->\n"), p.File+" is out of date, run make bench-report")
	}
}

func TestPagesWithMistakesAreNotDrawn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d := must.Get(draw(root))(g)
	for wrong, expected := range map[string]string{
		"<!-- drawn: plot nothing -->\n<!-- end of drawn -->\n":  `there is no plot "nothing"`,
		"<!-- drawn: table nothing -->\n<!-- end of drawn -->\n": "there are no results of nothing",
		"<!-- drawn: rivals speed -->\n<!-- end of drawn -->\n":  "there are figures for 0 lines only",
		"<!-- drawn: poem latency -->\n<!-- end of drawn -->\n":  "this kind is unknown",
		"<!-- drawn: table latency -->\n":                        "1 beginnings and 0 ends",
	} {
		_, err := d.page("README.md", wrong)
		g.Expect(err).To(MatchError(ContainSubstring(expected)), wrong)
	}
}

func TestALogarithmicPlotHasNoPlaceForZero(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	made := must.Get(plot([]*results.Run{{Measurements: []results.Measurement{{Name: "scale", Figures: []results.Figure{
		results.Alone("1 ScaledJobs: CPU at rest", "cores", 0), results.Alone("100 ScaledJobs: CPU at rest", "cores", 0.5),
	}}}}}, "scale-cpu"))(g)
	g.Expect(made.Lines).To(ConsistOf(HaveField("Points", [][2]float64{{100, 0.5}})))
}
