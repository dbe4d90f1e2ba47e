// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/script"
)

func TestHelpAndTheListAreNoFailure(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "list"} {
		var out strings.Builder
		NewWithT(t).Expect(run([]string{arg}, &out, io.Discard)).To(Equal(0))
		NewWithT(t).Expect(out.String()).To(HaveSuffix(script.Listing()))
	}
}

func TestAMistakeIsRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var complaint strings.Builder
	g.Expect(run([]string{"bursts"}, io.Discard, &complaint)).To(Equal(misused))
	g.Expect(strings.Count(complaint.String(), "\n")).To(Equal(1))
}

func TestPlainLinesWhereColorIsNotWanted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		environment map[string]string
		want        bool
	}{
		"terminal":    {map[string]string{"TERM": "xterm"}, true},
		"NO_COLOR":    {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"dumb":        {map[string]string{"TERM": "dumb"}, false},
		"no terminal": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			getenv := func(key string) string { return test.environment[key] }
			NewWithT(t).Expect(wantsColor(getenv)).To(Equal(test.want))
		})
	}
}
