// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package toolcache_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

func TestDirIsMadeOnceByManyAtATime(t *testing.T) {
	g := NewWithT(t)
	useCache(t)
	var made atomic.Int32
	tool := toolcache.Tool{Folder: "tool-v1", Make: func(_ context.Context, dir string, _ *progress.Line) error {
		made.Add(1)
		return os.WriteFile(filepath.Join(dir, "tool"), []byte("content"), 0o755)
	}}

	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			dir, err := tool.Dir(t.Context(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.ReadFile(filepath.Join(dir, "tool"))).To(BeEquivalentTo("content"))
		})
	}
	asking.Wait()
	g.Expect(made.Load()).To(BeEquivalentTo(1))
}

func TestDirIsNotKeptWhenMakeFails(t *testing.T) {
	g := NewWithT(t)
	root := useCache(t)
	failure := errors.New("no compiler")
	tool := toolcache.Tool{Folder: "tool-v1", Activity: "building tool v1", Make: func(_ context.Context, dir string, _ *progress.Line) error {
		return errors.Join(failure, os.WriteFile(filepath.Join(dir, "half"), nil, 0o600))
	}}
	_, err := tool.Dir(t.Context(), nil)
	g.Expect(err).To(And(MatchError(failure), MatchError(ContainSubstring("building tool v1"))))

	tool.Make = func(_ context.Context, dir string, _ *progress.Line) error {
		g.Expect(os.ReadDir(dir)).To(BeEmpty())
		return nil
	}
	dir, err := tool.Dir(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(dir).To(Equal(filepath.Join(root, "tool-v1")))
	g.Expect(dir).To(BeADirectory())
}

// A folder that Make removes is not kept, and those that are complete are kept whatever becomes of the others.
func TestCompleteFoldersAreKept(t *testing.T) {
	g := NewWithT(t)
	root := useCache(t)
	failure := errors.New("no compiler")
	tools := toolcache.Tools{
		Programs: map[string]string{"b-v1": "", "a-v1": ""}, Activity: "building a, b",
		Make: func(_ context.Context, missing map[string]string, _ *progress.Line) error {
			g.Expect(missing).To(HaveLen(2))
			return errors.Join(failure, os.Remove(missing["b-v1"]))
		},
	}
	_, err := tools.Dirs(t.Context(), nil)
	g.Expect(err).To(MatchError(failure))

	tools.Make = func(_ context.Context, missing map[string]string, _ *progress.Line) error {
		g.Expect(missing).To(And(HaveLen(1), HaveKey("b-v1")))
		return os.Remove(missing["b-v1"])
	}
	g.Expect(tools.Dirs(t.Context(), nil)).To(Equal(map[string]string{"a-v1": filepath.Join(root, "a-v1")}))

	tools.Make = func(context.Context, map[string]string, *progress.Line) error { return nil }
	g.Expect(tools.Dirs(t.Context(), nil)).To(HaveLen(2))
}

// A disk that was full, a power failure or a hand may leave a folder without a program that can run.
func TestFolderWithoutItsProgramIsMadeAgain(t *testing.T) {
	write := func(content string, mode os.FileMode) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), mode) }
	}
	for name, breakIt := range map[string]func(path string) error{
		"absent":         func(string) error { return nil },
		"empty":          write("", 0o755),
		"not executable": write("content", 0o644),
		"a folder":       func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			broken := filepath.Join(useCache(t), "tool-v1")
			g.Expect(os.Mkdir(broken, 0o755)).To(Succeed())
			g.Expect(breakIt(filepath.Join(broken, "program"))).To(Succeed())
			g.Expect(toolcache.Exists("tool-v1", "program")).To(BeFalse())
			tool := toolcache.Tool{Folder: "tool-v1", Program: "program", Make: func(_ context.Context, dir string, _ *progress.Line) error {
				return write("content", 0o755)(filepath.Join(dir, "program"))
			}}
			g.Expect(tool.Dir(t.Context(), nil)).To(Equal(broken))
			g.Expect(os.ReadFile(filepath.Join(broken, "program"))).To(BeEquivalentTo("content"))
			g.Expect(toolcache.Exists("tool-v1", "program")).To(BeTrue())
		})
	}
}

func TestFullCacheSaysWhatSelectsAnother(t *testing.T) {
	const full = "/dev/full" // on Linux
	if _, err := os.Stat(full); err != nil {
		t.Skip("only Linux has a file that is always full: ", err)
	}
	g := NewWithT(t)
	useCache(t)
	tool := toolcache.Tool{Folder: "tool-v1", Make: func(_ context.Context, dir string, _ *progress.Line) error {
		path := filepath.Join(dir, "program")
		return cmp.Or(os.Symlink(full, path), os.WriteFile(path, []byte("content"), 0o755))
	}}
	_, err := tool.Dir(t.Context(), nil)
	g.Expect(err).To(MatchError(HaveSuffix("(SCALEDJOB_CACHE selects another folder; about 500 MB are needed)")))

	tool.Make = func(context.Context, string, *progress.Line) error {
		return os.WriteFile(full, []byte("content"), 0o755)
	}
	_, err = tool.Dir(t.Context(), nil)
	g.Expect(err).To(MatchError(Not(ContainSubstring("SCALEDJOB_CACHE"))), "another disk is full")
}

func TestLeftoversOfAKilledProcessAreIgnored(t *testing.T) {
	g := NewWithT(t)
	root := useCache(t)
	g.Expect(os.MkdirAll(filepath.Join(root, "tool-v1.unfinished", "half"), 0o755)).To(Succeed())
	tool := toolcache.Tool{Folder: "tool-v1", Make: func(context.Context, string, *progress.Line) error { return nil }}

	dir, err := tool.Dir(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.ReadDir(dir)).To(BeEmpty())
}

func TestWaitingForAnotherProcessEndsWithTheContext(t *testing.T) {
	g := NewWithT(t)
	root := useCache(t)
	lock, err := os.Create(filepath.Join(root, "tool-v1.lock"))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = lock.Close() })
	g.Expect(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()

	var log bytes.Buffer
	_, err = toolcache.Tool{Folder: "tool-v1", Activity: "building tool v1"}.Dir(ctx, &log)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(log.String()).To(Equal("Waiting for another process that does the same: building tool v1.\n"))
}

func TestSharedFoldersThatNobodyUsesAreRemoved(t *testing.T) {
	g := NewWithT(t)
	root := useCache(t)
	share := func(folder string) {
		t.Helper()
		g.Expect(toolcache.Shared(t.Context(), folder, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "program"), nil, 0o755)
		})).To(Succeed())
	}
	age := func(folder string) {
		t.Helper()
		old := time.Now().AddDate(0, 0, -8)
		g.Expect(os.Chtimes(filepath.Join(root, folder), old, old)).To(Succeed())
	}
	for _, folder := range []string{"operator-old", "operator-busy", "operator-used", "operator-young", "other-old"} {
		share(folder)
		if folder != "operator-young" {
			age(folder)
		}
	}
	share("operator-used")
	g.Expect(toolcache.Shared(t.Context(), "operator-busy", func(string) error {
		age("operator-busy")
		share("operator-new")
		return nil
	})).To(Succeed())

	g.Expect(filepath.Join(root, "operator-old")).NotTo(BeADirectory())
	for _, folder := range []string{"operator-busy", "operator-used", "operator-young", "operator-new", "other-old"} {
		g.Expect(filepath.Join(root, folder)).To(BeADirectory())
	}
}

func TestProgressIsReportedWhileMaking(t *testing.T) {
	root := useCache(t)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		tool := toolcache.Tool{Folder: "tool-v1", Activity: "building tool v1", Make: func(_ context.Context, _ string, line *progress.Line) error {
			time.Sleep(20 * time.Second)
			line.Status("linking")
			time.Sleep(15 * time.Second)
			return nil
		}}
		var log bytes.Buffer
		dir, err := tool.Dir(t.Context(), &log)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(filepath.Dir(dir)).To(Equal(root))
		g.Expect(log.String()).To(Equal(
			"building tool v1, once per version, 15s …\nbuilding tool v1, once per version: linking, 30s …\n"))
	})
}

// useCache makes an empty folder the cache and returns its path.
func useCache(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Setenv("SCALEDJOB_CACHE", root)
	return root
}
