// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestFilesOfOtherReleasesAreDeleted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dist := filepath.Join(t.TempDir(), "dist")
	g.Expect(clearDist(dist)).To(Succeed(), "it is created")
	for _, file := range []string{
		"scaledjob-operator-v1.0.0-linux-arm64.tar", "scaledjob-operator-v1.0.0-linux-amd64.cdx.json",
		"scaledjob-operator-1.0.0.tgz", "kubectl-scaledjob-v1.0.0-darwin-arm64.tar.gz", "kubectl-scaledjob-v1.0.0-windows-amd64.zip",
		"krew.yaml", "crds.yaml", "install.yaml", "SHA256SUMS", "SHA256SUMS.sigstore.json", ".123.part",
	} {
		write(t, dist, file, "old")
	}
	g.Expect(clearDist(dist)).To(Succeed())
	g.Expect(os.ReadDir(dist)).To(BeEmpty())
}

func TestNothingIsDeletedBesideAnotherFile(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"notes.txt", "my-install.yaml", "install.yaml.bak", "scaledjob-operator-v1-darwin-arm64.tar", "crds.yaml/file"} {
		g := NewWithT(t)
		dist := t.TempDir()
		write(t, dist, "SHA256SUMS", "old")
		write(t, dist, other, "precious")
		g.Expect(clearDist(dist)).To(MatchError(ContainSubstring("which is not of a release: move it elsewhere")), other)
		g.Expect(filepath.Join(dist, "SHA256SUMS")).To(BeARegularFile())
		g.Expect(filepath.Join(dist, other)).To(BeARegularFile())
	}
}

func TestADistThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dist")
	write(t, filepath.Dir(file), "dist", "a file")
	NewWithT(t).Expect(clearDist(file)).To(MatchError(ContainSubstring("dist: not a directory")))
}

// Root may write in spite of permissions, but nobody can write to a folder that is deleted.
func TestADistInWhichNoFileCanBeCreated(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	deleted := t.TempDir()
	folder := must.Get(os.Open(deleted))(g)
	defer folder.Close()
	g.Expect(os.Remove(deleted)).To(Succeed())
	r.dist = fmt.Sprintf("/proc/self/fd/%d", folder.Fd())
	r.compile = func(context.Context, v1.Platform, string, string) error { return errors.New("compiled") }
	want := MatchError(HavePrefix("cannot write to " + r.dist + ": "))
	g.Expect(r.make(t.Context())).To(want)
	g.Expect(r.makeArchive(t.Context())).To(want)
}

func TestChecksumsAreThoseOfSha256sum(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dist := t.TempDir()
	write(t, dist, "b", "two")
	write(t, dist, "a", "one")
	write(t, dist, "SHA256SUMS", "old")
	g.Expect(writeChecksums(dist)).To(Succeed())
	out := must.Get(command(t.Context(), dist, nil, "sha256sum", "--check", "--strict", "SHA256SUMS"))(g)
	g.Expect(string(out)).To(Equal("a: OK\nb: OK\n"))
	write(t, dist, "a", "changed")
	g.Expect(command(t.Context(), dist, nil, "sha256sum", "--check", "SHA256SUMS")).Error().To(HaveOccurred())
}
