// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// An alert leads to a section that names it, and each alert that a runbook names exists.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rules := read(t, "config/prometheus/rules.yaml")
	alerts, links := all(`(?m)^  - alert: (\w+)$`, rules), all(`(?m)^      runbook_url: https://[^#]*/(docs/operations/runbooks/[\w-]+\.md#[\w-]+)$`, rules)
	g.Expect(alerts).NotTo(BeEmpty())
	g.Expect(links).To(HaveLen(len(alerts)))
	for i, link := range links {
		page, anchor, _ := strings.Cut(link, "#")
		g.Expect(anchors(read(t, page))).To(ContainElement(anchor), alerts[i])
		g.Expect(partOf(read(t, page), anchor)).To(ContainSubstring("\nAlert `"+alerts[i]+"`."), link)
	}
	var named []string
	for _, page := range files(t, ".md", "docs/operations/runbooks") {
		named = append(named, all("Alert `(\\w+)`", read(t, page))...)
	}
	g.Expect(named).To(ConsistOf(alerts))
}

// The page on alerts has a row for each, as the rules have it.
func TestThePageOnAlertsListsTheRules(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rule := regexp.MustCompile(`(?s)  - alert: (\w+)\n.*?    for: (\w+)\n.*?severity: (\w+)\n.*?summary: ([^\n]+)\n.*?/docs/operations/(runbooks/\S+)\n`)
	var rows []string
	for _, each := range rule.FindAllStringSubmatch(read(t, "config/prometheus/rules.yaml"), -1) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | [%s](%s) |", each[1], each[3], each[2], each[4], each[5]))
	}
	g.Expect(rows).NotTo(BeEmpty())
	g.Expect(all("(?m)^(\\| `ScaledJob.*)$", read(t, "docs/operations/alerts.md"))).To(ConsistOf(rows))
}

// partOf is the text of a document below the heading that an anchor leads to.
func partOf(document, anchor string) string {
	for _, part := range regexp.MustCompile(`(?m)^#+ `).Split(document, -1) {
		if heading, _, _ := strings.Cut(part, "\n"); slices.Contains(anchors("# "+heading), anchor) {
			return part
		}
	}
	return ""
}

// A table of a runbook whose header names a condition says what to do for reasons of it.
func TestEveryReasonIsInARunbook(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	named := map[string][]string{}
	for _, page := range files(t, ".md", "docs/operations/runbooks") {
		for _, table := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+)` \\|.*\\n\\|[-|]+\\|\\n((?:\\|.*\\n)+)").FindAllStringSubmatch(read(t, page), -1) {
			named[table[1]] = append(named[table[1]], all(`(?m)^\| \[(\w+)\]\(`, table[2])...)
		}
	}
	for kind, reasons := range conditionTable(t) {
		if len(reasons) > 0 { // Stalled and Reconciling repeat those of Ready.
			g.Expect(named[kind]).To(ContainElements(reasons), kind)
		}
		for _, reason := range named[kind] {
			g.Expect(reasons).To(ContainElement(reason), kind)
		}
		delete(named, kind)
	}
	g.Expect(named).To(BeEmpty(), "these are no conditions")
}
