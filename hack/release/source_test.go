// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// git runs git in a folder, without the settings of the user, as a committer with a fixed clock.
func git(t *testing.T, folder string, args ...string) {
	t.Helper()
	env := []string{
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_DATE=1700000000 +0100", "GIT_COMMITTER_DATE=1700000000 +0100",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example",
	}
	NewWithT(t).Expect(command(t.Context(), folder, env, "git", args...)).Error().NotTo(HaveOccurred())
}

// repository is a folder with one commit.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "file", "one")
	git(t, folder, "init", "--quiet")
	git(t, folder, "add", "file")
	git(t, folder, "commit", "--quiet", "--message=one")
	return folder
}

// write writes a file, and the folders on the way to it.
func write(t *testing.T, folder, file, content string) {
	t.Helper()
	path := filepath.Join(folder, file)
	NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o644)).To(Succeed())
}

func TestGitTellsVersionAndTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := repository(t)
	first := must.Get(readSource(t.Context(), folder))(g)
	g.Expect(first.described).To(MatchRegexp("^[0-9a-f]{12}$"))
	g.Expect(first.revision).To(And(HaveLen(40), HavePrefix(first.described)))
	g.Expect(first.committed).To(Equal(time.Unix(1700000000, 0).UTC()))

	git(t, folder, "tag", "nightly")
	git(t, folder, "tag", "v1.2.3")
	g.Expect(readSource(t.Context(), folder)).To(Equal(source{"v1.2.3", first.revision, first.committed}))

	write(t, folder, "new.go", "not yet known to git, but compiled")
	g.Expect(readSource(t.Context(), folder)).To(Equal(source{"v1.2.3-dirty", first.revision + "-dirty", first.committed}))

	git(t, folder, "add", "new.go")
	git(t, folder, "commit", "--quiet", "--message=two")
	second := must.Get(readSource(t.Context(), folder))(g)
	g.Expect(second.described).To(MatchRegexp("^v1[.]2[.]3-1-g[0-9a-f]{12}$"))
}

// What users keep in their clone, as the pages on installing and upgrading say, does not change the version.
func TestFilesOfUsersAreNoChange(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := repository(t)
	write(t, folder, ".gitignore", string(must.Get(os.ReadFile(sources+"/.gitignore"))(g)))
	git(t, folder, "add", ".gitignore")
	git(t, folder, "commit", "--quiet", "--message=two")
	before := must.Get(readSource(t.Context(), folder))(g)
	for _, file := range []string{"dist/install.yaml", "release-v0.9.0/install.yaml", "overlay/kustomization.yaml", "values.yaml"} {
		write(t, folder, file, "of a user")
	}
	g.Expect(readSource(t.Context(), folder)).To(Equal(before))
}

func TestAFolderWithoutGitTellsNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(readSource(t.Context(), t.TempDir())).Error().To(MatchError(ContainSubstring("not a git repository")))

	outer := repository(t)
	write(t, outer, "unpacked/file", "")
	_, err := readSource(t.Context(), filepath.Join(outer, "unpacked"))
	g.Expect(err).To(MatchError("the folder is part of another repository"))
}

// Tests that set variables of the environment can't run in parallel.
func TestTimeOfImages(t *testing.T) {
	g := NewWithT(t)
	committed := time.Unix(1700000000, 0).UTC()
	t.Setenv("SOURCE_DATE_EPOCH", "")
	g.Expect(creationTime(committed)).To(Equal(committed))
	g.Expect(creationTime(time.Time{})).To(Equal(time.Unix(0, 0).UTC()))
	t.Setenv("SOURCE_DATE_EPOCH", "1800000000")
	g.Expect(creationTime(committed)).To(Equal(time.Unix(1800000000, 0).UTC()))
	for _, wrong := range []string{"yesterday", "99999999999999"} {
		t.Setenv("SOURCE_DATE_EPOCH", wrong)
		_, err := creationTime(committed)
		g.Expect(err).To(MatchError("SOURCE_DATE_EPOCH=" + wrong + " is not a number of seconds since 1970"))
	}
}
