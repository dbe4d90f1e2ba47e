// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFolderOfAProgramThatDoesNotRunIsNamed(t *testing.T) {
	g := NewWithT(t)
	cache := t.TempDir()
	t.Setenv("SCALEDJOB_CACHE", cache)
	program := filepath.Join(cache, "etcd-v3", "etcd")
	g.Expect(os.Mkdir(filepath.Dir(program), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(program, []byte("\x7fELF cut off"), 0o755)).To(Succeed())
	_, err := Versions(t.Context(), map[Program]string{Etcd: program})
	g.Expect(err).To(MatchError(program + " does not run: fork/exec " + program + ": exec format error. Remove the folder " +
		filepath.Dir(program) + ", and the same command makes it again"))

	elsewhere := filepath.Join(t.TempDir(), "etcd")
	g.Expect(os.Rename(program, elsewhere)).To(Succeed())
	_, err = Versions(t.Context(), map[Program]string{Etcd: elsewhere})
	g.Expect(err).To(MatchError(HaveSuffix("exec format error")))
	g.Expect(os.WriteFile(elsewhere, []byte("#!/bin/sh\necho etcd 3 $*\n"), 0o755)).To(Succeed())
	g.Expect(Versions(t.Context(), map[Program]string{Etcd: elsewhere, Kubectl: elsewhere})).
		To(Equal(map[Program]string{Etcd: "etcd 3 --version", Kubectl: "etcd 3 version --client"}))
}
