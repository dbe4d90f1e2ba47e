// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
)

// The page describes every command with all of its flags.
func TestTheDocumentHasAllCommandsAndFlags(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content, err := os.ReadFile("../../docs/reference/cli.md")
	g.Expect(err).NotTo(HaveOccurred())
	page := string(content)
	a := &app{}
	root := a.root()
	root.InitDefaultCompletionCmd()
	sectionOf := func(title string) string {
		_, section, found := strings.Cut(page, "\n## "+title)
		g.Expect(found).To(BeTrue(), title)
		section, _, _ = strings.Cut(section, "\n## ")
		return section
	}
	documented := func(flags *pflag.FlagSet, section string) {
		flags.VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "help" {
				g.Expect(section).To(ContainSubstring("--"+flag.Name), flag.Name)
			}
		})
	}
	documented(root.PersistentFlags(), sectionOf("Flags of all commands"))
	titles := map[string]string{"suspend": "suspend and resume", "resume": "suspend and resume"}
	for _, command := range root.Commands() {
		title := command.Name()
		if of, shared := titles[title]; shared {
			title = of
		}
		g.Expect(page).To(ContainSubstring("[`"+command.Name()+"`]("), "in the table at the beginning")
		documented(command.LocalNonPersistentFlags(), sectionOf(title))
	}
}
