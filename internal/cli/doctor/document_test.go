// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// document is the page with the permissions in Redis. With -update, the test writes its table.
const document = "../../../docs/reference/redis-permissions.md"

var update = flag.Bool("update", false, "write the table of docs/reference/redis-permissions.md")

// The page has the rules for each kind of key by which doctor looks for those that are missing.
func TestTheDocumentHasTheRulesOfAllKeys(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content, err := os.ReadFile(document)
	g.Expect(err).NotTo(HaveOccurred())
	const head = "| type of the key | rules |\n|---|---|\n"
	before, rest, found := strings.Cut(string(content), head)
	g.Expect(found).To(BeTrue())
	_, after, found := strings.Cut(rest, "\n\n")
	g.Expect(found).To(BeTrue())
	text := before + head + rulesOfKeys() + "\n" + after
	if *update {
		g.Expect(os.WriteFile(document, []byte(text), 0o600)).To(Succeed())
		return
	}
	g.Expect(string(content)).To(Equal(text), "make generate writes it")
}

func rulesOfKeys() string {
	window := func(of scaledjobv1.SortedSetWindow) *scaledjobv1.SortedSetQueue {
		return &scaledjobv1.SortedSetQueue{Window: of}
	}
	var rows strings.Builder
	for _, kind := range []struct {
		name  string
		queue scaledjobv1.Queue
	}{
		{"`List`", scaledjobv1.Queue{Type: scaledjobv1.QueueList}},
		{"`Set`", scaledjobv1.Queue{Type: scaledjobv1.QueueSet}},
		{"`Hash`", scaledjobv1.Queue{Type: scaledjobv1.QueueHash}},
		{"`SortedSet`", scaledjobv1.Queue{Type: scaledjobv1.QueueSortedSet, SortedSet: window(scaledjobv1.WindowAll)}},
		{"`SortedSet` with `window: Live`", scaledjobv1.Queue{Type: scaledjobv1.QueueSortedSet, SortedSet: window(scaledjobv1.WindowLive)}},
		{"`SortedSet` with `window: Due`", scaledjobv1.Queue{Type: scaledjobv1.QueueSortedSet, SortedSet: window(scaledjobv1.WindowDue)}},
		{"`Stream`", scaledjobv1.Queue{Type: scaledjobv1.QueueStream}},
		{"`Stream` with `consumerGroup`", scaledjobv1.Queue{Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{}}},
	} {
		key := keyOf(&kind.queue)
		var rules []string
		for _, command := range key.Commands {
			rules = append(rules, command.Grant)
		}
		if key.Together {
			rules = append(rules, "+multi", "+exec")
		}
		fmt.Fprintf(&rows, "| %s | `%s` |\n", kind.name, strings.ReplaceAll(strings.Join(rules, " "), "|", `\|`))
	}
	return rows.String()
}
