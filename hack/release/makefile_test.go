// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

func TestHelpListsEveryTarget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	makefile := must.Get(os.ReadFile(filepath.Join(sources, "Makefile")))(g)
	help := must.Get(runMake(t, "help"))(g)
	targets := regexp.MustCompile(`(?m)^([^\s:]+):.*## `).FindAllSubmatch(makefile, -1)
	g.Expect(targets).NotTo(BeEmpty())
	for _, target := range targets {
		g.Expect(string(help)).To(MatchRegexp(`(?m)^` + string(target[1]) + ` `))
	}
}

func TestWithoutAClusterDeployAndUndeployStopAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	programs.Write(t, folder, "kubectl", "#!/bin/sh\necho 'the connection was refused' >&2\nexit 1\n")
	for program, want := range map[string]string{"kubectl": "the connection was refused", "missing": "No such file or directory"} {
		for _, target := range []string{"deploy", "undeploy"} {
			_, err := runMake(t, target, "KUBECTL="+filepath.Join(folder, program), "RELEASE=echo not wanted >&2;")
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(want), Not(ContainSubstring("not wanted")))), target)
		}
	}
}

func TestDeployAndUndeployHandOverTheManifest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := t.TempDir()
	programs.Write(t, folder, "kubectl", "#!/bin/sh\n[ \"$1\" = version ] && exit\necho \"$@\"\nfor file; do :; done\ncat \"$file\"\n")
	for target, want := range map[string]string{
		"deploy":   `^apply -f (\S+)\nthe manifest\n`,
		"undeploy": `^delete --ignore-not-found -l app.kubernetes.io/name=scaledjob-operator -f (\S+)\nthe manifest\n`,
	} {
		out := must.Get(runMake(t, target, "KUBECTL="+filepath.Join(folder, "kubectl"), "RELEASE=echo the"))(g)
		g.Expect(string(out)).To(MatchRegexp(want))
		g.Expect(regexp.MustCompile(want).FindStringSubmatch(string(out))[1]).NotTo(BeAnExistingFile())
	}
}

// runMake runs make as a user does, also where make runs the tests.
func runMake(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	return command(t.Context(), sources, []string{"MAKEFLAGS=", "MAKELEVEL=0"}, "make", args...)
}
