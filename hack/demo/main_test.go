// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/scene"
)

func TestHelpIsNoFailure(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var help strings.Builder
	g.Expect(run([]string{"-h"}, io.Discard, &help)).To(Equal(0))
	g.Expect(help.String()).To(ContainSubstring("-keep"))
	g.Expect(help.String()).To(ContainSubstring("-redis host:port"))
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-unknown"}, {"redis:6379"}, {"burst", "trickle"}, {"-redis=localhost"}, {"-redis=:6379"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var complaint strings.Builder
			g.Expect(run(args, io.Discard, &complaint)).To(Equal(misused))
			g.Expect(complaint.String()).To(ContainSubstring(strings.TrimLeft(args[len(args)-1], "-redis=")))
			g.Expect(complaint.String()).To(ContainSubstring("burst"))
		})
	}
}

func TestTheListNamesAllScenes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var list strings.Builder
	g.Expect(run([]string{"list"}, &list, io.Discard)).To(Equal(0))
	for _, s := range scene.All() {
		g.Expect(list.String()).To(ContainSubstring("  " + s.Name + " "))
	}
	for line := range strings.Lines(list.String()) {
		g.Expect(len(line)).To(BeNumerically("<=", lineWidth+1))
	}
}

func TestOneSceneOrAll(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all, err := parseOptions(nil, io.Discard)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.scenes).To(HaveLen(len(scene.All())))

	one, err := parseOptions([]string{"-redis=localhost:6379", "-keep", "trickle"}, io.Discard)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.scenes).To(HaveLen(1))
	g.Expect(one.scenes[0].Name).To(Equal("trickle"))
	g.Expect(one.redisAddress).To(Equal("localhost:6379"))
	g.Expect(one.keep).To(BeTrue())
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
