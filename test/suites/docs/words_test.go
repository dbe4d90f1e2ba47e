// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// avoided are words for which the reference of Kubernetes has plainer ones: Redis reports and notifies, and a fault
// ends.
var avoided = regexp.MustCompile(`(?i)\b(tell|tells|telling|told|heard of|hears of|anew|beside|in vain|for ever|all the same|mended|giv(?:e|es|ing) way|` +
	`be asked|nobody knows|nobody asked for|goes on)\b`)

func TestPagesForUsersAvoidWords(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, page := range pagesForUsers(t) {
		g.Expect(avoidedIn(read(t, page))).To(BeEmpty(), page)
	}
}

func TestWordsAreFoundInProseOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(avoidedIn("Redis Tells it, all\nthe same.")).To(Equal([]string{"Tells", "all the same"}))
	g.Expect(avoidedIn("Besides, `told` is [code](page.md#beside-it).\n\n```text\ntold\n```\n\n  ```\n  told\n  ```\nDone.")).To(BeEmpty())
	g.Expect(avoidedIn("`nobody\nknows` is code, nobody knows is not, and `goes on` is.")).To(Equal([]string{"nobody knows"}))
}

// avoidedIn are the words in the prose of a page.
func avoidedIn(page string) []string {
	text := regexp.MustCompile(`\]\([^)\s]*\)`).ReplaceAllString(prose(page), "]")
	return avoided.FindAllString(strings.Join(strings.Fields(text), " "), -1)
}

// pagesForUsers are all documents except those for contributors, and those outside docs.
func pagesForUsers(t *testing.T) []string {
	t.Helper()
	pages := slices.DeleteFunc(documents(t), func(page string) bool { return strings.HasPrefix(page, "docs/contributing/") })
	return append(pages, "charts/scaledjob-operator/README.md", "config/samples/README.md")
}
