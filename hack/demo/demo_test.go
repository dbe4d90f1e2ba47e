// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// One scene starts and stops everything that the other scenes need.
func TestASceneFromTheFirstWordToTheLast(t *testing.T) {
	g := NewWithT(t)
	t.Chdir("../..")
	var out, complaint strings.Builder
	g.Expect(run([]string{"operator"}, &out, &complaint)).To(Equal(0), "%s", &complaint)
	g.Expect(out.String()).To(MatchRegexp(`(?s)emulated.*Scene 1 of 1: operator.*50 Jobs due, 50 created.*All checks.*done\.`))
	g.Expect(complaint.String()).To(BeEmpty())
}
