// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// In an empty folder, whatever compiles fails.
func TestAMistakeIsFoundBeforeTheDemoIsCompiled(t *testing.T) {
	t.Chdir(t.TempDir())
	g := NewWithT(t)
	var log strings.Builder
	g.Expect(run(t.Context(), &log, []string{"demo", "bursts"})).To(MatchError(ContainSubstring(`there is no scene "bursts"`)))
	g.Expect(log.String()).To(BeEmpty())
	g.Expect(run(t.Context(), &log, []string{"demo", "list"})).To(Succeed())
	g.Expect(log.String()).To(ContainSubstring("burst"))
	g.Expect(run(t.Context(), &log, []string{"demo"})).NotTo(Succeed())
}
