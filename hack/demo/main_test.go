// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestHelpIsNoFailure(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var help strings.Builder
	g.Expect(run([]string{"-h"}, io.Discard, &help)).To(Equal(0))
	g.Expect(help.String()).To(ContainSubstring("-keep"))
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, argument := range []string{"-unknown", "redis:6379"} {
		var complaint strings.Builder
		g.Expect(run([]string{argument}, io.Discard, &complaint)).To(Equal(misused))
		g.Expect(complaint.String()).To(ContainSubstring(strings.TrimPrefix(argument, "-")))
	}
}
