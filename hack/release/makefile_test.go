// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

func TestHelpListsEveryTarget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	makefile, err := os.ReadFile(filepath.Join(sources, "Makefile"))
	g.Expect(err).NotTo(HaveOccurred())
	help, err := command(t.Context(), sources, nil, "make", "help")
	g.Expect(err).NotTo(HaveOccurred())
	targets := regexp.MustCompile(`(?m)^([^\s:]+):.*## `).FindAllSubmatch(makefile, -1)
	g.Expect(targets).NotTo(BeEmpty())
	for _, target := range targets {
		g.Expect(string(help)).To(MatchRegexp(`(?m)^` + string(target[1]) + ` `))
	}
}
