// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// kubectl answers as a cluster with two ScaledJobs and three Jobs, and writes down what it is asked to delete. It fails
// to get what its context is named after.
const kubectl = `#!/bin/sh
[ "$1" != "--context=$3" ] || { echo "the connection was refused" >&2; exit 1; }
case "$2 $3" in
"get customresourcedefinitions") [ "$1" = --context=empty ] || echo customresourcedefinition/scaledjobs.batch.miracle.dev ;;
"get scaledjobs.batch.miracle.dev") echo scaledjob/a; echo scaledjob/b ;;
"get jobs") case "$*" in *--selector=batch.miracle.dev/scaledjob*) echo job/1; echo job/2; echo job/3 ;; esac ;;
delete*) echo "$@" > "$(dirname "$0")/deleted" ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
`

// uninstall runs the script against a cluster. It returns what the script printed and what it deleted.
func uninstall(t *testing.T, context, confirm string) (said, deleted string, err error) {
	t.Helper()
	folder := t.TempDir()
	programs.Write(t, folder, "kubectl", kubectl)
	out, err := command(t.Context(), "", []string{
		"KUBECTL=" + filepath.Join(folder, "kubectl") + " --context=" + context, "CONFIRM=" + confirm,
	}, "./uninstall.sh", "")
	content, _ := os.ReadFile(filepath.Join(folder, "deleted"))
	return string(out), strings.TrimSpace(string(content)), err
}

func TestUninstallAsksBeforeItDeletes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	said, deleted, err := uninstall(t, "full", "yes")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(said).To(Equal("Deleting the CRD deletes all ScaledJobs (2) and all their Jobs (3), running ones too.\n"))
	g.Expect(deleted).To(Equal("--context=full delete customresourcedefinitions scaledjobs.batch.miracle.dev"))

	_, deleted, err = uninstall(t, "full", "")
	g.Expect(err).To(MatchError(ContainSubstring("To do it: make uninstall CONFIRM=yes")))
	g.Expect(deleted).To(BeEmpty())

	said, deleted, err = uninstall(t, "empty", "yes")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(said).To(Equal("The CRD is not installed.\n"))
	g.Expect(deleted).To(BeEmpty())

	for _, failing := range []string{"customresourcedefinitions", "scaledjobs.batch.miracle.dev", "jobs"} {
		_, deleted, err = uninstall(t, failing, "yes")
		g.Expect(err).To(MatchError(ContainSubstring("the connection was refused")), failing)
		g.Expect(deleted).To(BeEmpty(), failing)
	}
}
