// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	. "github.com/onsi/gomega"
)

func TestTerminalsAreNotControlledByMessages(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Printable("a\x1b[2Jb\x06\nc – é")).To(Equal("a?[2Jb?\nc – é"))
	g.Expect(Hanging("- ", "a\x1b[2Jb\nc", 20)).To(Equal("- a?[2Jb c\n"))
	g.Expect(Table("", [][]string{{"a\x1b[2J", "b\nc", "d\te"}})).To(Equal("a?[2J   b?c   d?e\n"))
}

func TestHanging(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Hanging("  ", "one two three", 20)).To(Equal("  one two three\n"))
	g.Expect(Hanging("  ✓ ", "one two three four five", 20)).To(Equal("  ✓ one two three\n    four five\n"))
	g.Expect(Hanging("", "kubectl get pods --namespace=mail", 30)).To(Equal("kubectl get pods\n--namespace=mail\n"), "commands can be copied")
	g.Expect(Hanging("", "", 30)).To(Equal("\n"))
	for width := range 60 {
		for line := range strings.Lines(Hanging("- ", "No line is wider than it may be, if its words are not.", width)) {
			g.Expect(ansi.StringWidth(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", max(width, leastWidth+2)))
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Shorten(" one\n two\t", 7)).To(Equal("one two"))
	g.Expect(Shorten("one two three", 7)).To(Equal("one two…"))
	g.Expect(Shorten("aé", 2)).To(Equal("a…"), "no character is cut")
	g.Expect(Shorten("a\xffb", 9)).To(Equal("a?b"))
}

func TestTable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Table(Indent, [][]string{{"NAME", "DEPTH"}, {"emails", Unknown}})).To(Equal("  NAME     DEPTH\n  emails   –\n"))
	g.Expect(Table(Indent, nil)).To(BeEmpty())
}
