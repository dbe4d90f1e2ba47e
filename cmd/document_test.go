// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// document is the page with all flags. With -update, the test writes it.
const document = "../docs/reference/flags.md"

var update = flag.Bool("update", false, "write docs/reference/flags.md")

// groups are the sections of the page, by the beginnings of the names of their flags. A flag is in the first that fits.
var groups = []struct {
	title    string
	prefixes []string
}{
	{"Metrics", []string{"metrics-"}},
	{"Leader election", []string{"leader-"}},
	{"Redis", []string{"redis-", "allow-insecure-redis", "max-redis", "configure-redis", "polling-"}},
	{"Logs", []string{"zap-"}},
	{"Other flags", []string{""}},
}

// The flags that the operator defines are the page. The test does not run in parallel: the client library stores the
// flag kubeconfig in a global variable.
func TestTheDocumentHasAllFlags(t *testing.T) {
	g := NewWithT(t)
	text := page(new(options).bind())
	if *update {
		g.Expect(os.WriteFile(document, []byte(text), 0o600)).To(Succeed())
		return
	}
	content, err := os.ReadFile(document)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(text), "make generate writes it")
}

func page(flags *flag.FlagSet) string {
	sections := make([]strings.Builder, len(groups))
	flags.VisitAll(func(each *flag.Flag) {
		for i, group := range groups {
			for _, prefix := range group.prefixes {
				if strings.HasPrefix(each.Name, prefix) {
					sections[i].WriteString(item(each))
					return
				}
			}
		}
	})
	text := "# Flags\n\nThe flags of the operator. `manager --help` shows the same text; the page is generated from it. The chart sets most of them by\n" +
		"its [values](../../charts/scaledjob-operator/README.md#values). [kubectl scaledjob](cli.md) has the flags of the plugin.\n"
	for i, group := range groups {
		text += "\n## " + group.title + "\n\n" + sections[i].String()
	}
	return text
}

var (
	otherFlag     = regexp.MustCompile(`(^|[ ('])-([a-z])`)
	statedDefault = regexp.MustCompile(`\s*\(default (.+)\)$`)
)

// item returns the list item of a flag. A default that the text states is that of a flag without a value.
func item(of *flag.Flag) string {
	value, usage := flag.UnquoteUsage(of)
	standard := ""
	if of.DefValue != "" {
		standard = " (default `" + of.DefValue + "`)"
	}
	if match := statedDefault.FindStringSubmatch(usage); match != nil {
		standard, usage = " (default: "+match[1]+")", statedDefault.ReplaceAllString(usage, "")
	}
	if value != "" {
		value = "=" + strings.ToUpper(value)
	}
	described := otherFlag.ReplaceAllString(strings.Join(strings.Fields(usage), " "), "$1--$2")
	return fmt.Sprintf("- **`--%s%s`**%s\\\n  %s\n", of.Name, value, standard, described)
}
