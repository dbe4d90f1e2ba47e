// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package frameworks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A part of a page is generated between two comments. The first one says what it is: the evidence for a framework, or
// its manifest, with conditions of keys that are true.
var generated = regexp.MustCompile(`(?s)(<!-- generated: (evidence|manifest) ([\w-]+)(?:, ([^>]+?))? -->\n).*?(<!-- end -->)`)

const (
	pageQueue   = "emails"
	pageAddress = "redis.default.svc.cluster.local:6379"
	pageImage   = "example/worker:1"
)

// Page returns a page with its generated parts as they should be, with comments of at most width columns in manifests,
// and the frameworks whose manifests it has.
func Page(text string, all []Framework, width int) (page string, shown []string, err error) {
	page = generated.ReplaceAllStringFunc(text, func(part string) string {
		match := generated.FindStringSubmatch(part)
		i := slices.IndexFunc(all, func(f Framework) bool { return f.ID == match[3] })
		if i < 0 {
			err = fmt.Errorf("there is no framework %q", match[3])
			return part
		}
		if match[2] == "evidence" {
			return match[1] + all[i].evidence() + match[5]
		}
		shown = append(shown, match[3])
		return match[1] + all[i].shown(match[4], width) + match[5]
	})
	return page, shown, err
}

// evidence is how the keys are known, and what else there is to know.
func (f *Framework) evidence() string {
	known := "**Read**: the keys are those of the source, " + f.Version + ". No worker was run."
	if f.Evidence == Tested {
		known = "**Tested**: workers of " + f.Version + " ran on a Redis, and the keys were looked at before, during and after a message."
	}
	return known + " The number of Jobs is " + f.inWords(f.Number) + ".\n" + f.list()
}

// list are the notes as a list.
func (f *Framework) list() string {
	var list strings.Builder
	for _, note := range f.Notes {
		list.WriteString("\n- " + f.inWords(note))
	}
	if list.Len() == 0 {
		return ""
	}
	return list.String() + "\n"
}

func (f *Framework) inWords(text string) string {
	text = strings.Replace(text, "as Accurate", "that of [`Accurate`](../queues.md#workers-that-pop-at-the-start)", 1)
	return strings.ReplaceAll(text, placeholder, cmp.Or(f.DefaultQueue, pageQueue))
}

// shown is the manifest as a block, without the comment at its beginning, whose words the page has already.
func (f *Framework) shown(condition string, width int) string {
	queue := cmp.Or(f.DefaultQueue, pageQueue)
	manifest := f.Manifest(Choices{
		Name: strings.ReplaceAll(queue, ":", "-"), Queue: queue, RedisAddress: pageAddress, Image: pageImage, Threshold: 1,
		With: []string{condition},
	}, width)
	_, manifest, _ = strings.Cut(manifest, "\napiVersion:")
	return "```yaml\napiVersion:" + manifest + "```\n"
}
