// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package toolcache keeps the programs tests run in the user's cache folder.
// Each is made once per version, however many processes ask for it at a time.
package toolcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	// rootVariable names the environment variable that replaces the default
	// place, <user's cache folder>/scaledjob-operator.
	rootVariable = "SCALEDJOB_CACHE"

	lockInterval = 100 * time.Millisecond

	// unusedTime is how long a folder of Shared stays that nobody uses.
	unusedTime = 7 * 24 * time.Hour
)

// Tool is a folder of the cache and the way to make it.
type Tool struct {
	// Folder is the name of the folder. It holds whatever the content depends
	// on: the program, its version, the platform.
	Folder string
	// Activity says what is made, for progress lines: "etcd v3.6.16".
	Activity string
	// Make fills the empty folder dir, and may say on line how far it is. A folder is kept only if Make succeeds.
	Make func(ctx context.Context, dir string, line *progress.Line) error
}

// Dir returns the path of the tool's folder, made now if it is not there.
// While that lasts, by this process or by another, log shows it.
func (t Tool) Dir(ctx context.Context, log io.Writer) (string, error) {
	fill := func(ctx context.Context, missing map[string]string, line *progress.Line) error {
		err := t.Make(ctx, missing[t.Folder], line)
		if err != nil {
			err = errors.Join(err, os.RemoveAll(missing[t.Folder]))
		}
		return err
	}
	dirs, err := Tools{Folders: []string{t.Folder}, Activity: t.Activity, Make: fill}.Dirs(ctx, log)
	return dirs[t.Folder], err
}

// Tools are folders of the cache that are made together.
type Tools struct {
	// Folders are as that of a Tool.
	Folders []string
	// Activity is as that of a Tool.
	Activity string
	// Make fills empty folders, and may say on line how far it is. The key is the name of each folder that is missing in
	// the cache, the value its path for now. Make removes those that are not complete when it returns; the others are
	// kept, also if it fails.
	Make func(ctx context.Context, missing map[string]string, line *progress.Line) error
}

// Dirs returns the path of each folder by its name. Those that are missing are made now. A folder that Make has removed
// has no path.
func (t Tools) Dirs(ctx context.Context, log io.Writer) (map[string]string, error) {
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	if len(t.missing(root)) > 0 {
		line := progress.Start(log, t.Activity+", once per version")
		defer line.Stop()
		if err := t.makeOnce(ctx, root, line); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Activity, err)
		}
	}
	dirs := map[string]string{}
	for _, folder := range t.Folders {
		if dir := filepath.Join(root, folder); exists(dir) {
			dirs[folder] = dir
		}
	}
	return dirs, nil
}

// missing returns the names of the folders that do not exist, sorted.
func (t Tools) missing(root string) []string {
	missing := slices.DeleteFunc(slices.Clone(t.Folders), func(folder string) bool { return exists(filepath.Join(root, folder)) })
	slices.Sort(missing)
	return missing
}

// Exists reports whether a folder of the cache exists.
func Exists(folder string) (bool, error) {
	root, err := cacheRoot()
	return err == nil && exists(filepath.Join(root, folder)), err
}

// Shared calls do with the path of a folder of the cache that processes share, and lets only one of them in at a time.
// When it makes the folder, it removes those with the same beginning, up to the first hyphen, that were not used for a
// week.
func Shared(ctx context.Context, folder string, do func(dir string) error) error {
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, folder)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if !exists(dir) {
		kind, _, _ := strings.Cut(folder, "-")
		if err := removeUnused(filepath.Join(root, kind)); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := cmp.Or(os.MkdirAll(dir, 0o755), os.Chtimes(dir, now, now)); err != nil {
		return err
	}
	return do(dir)
}

// removeUnused removes the folders that no call of Shared has used for a week. The files of their locks stay, because
// another process may be waiting for one.
func removeUnused(kind string) error {
	folders, err := filepath.Glob(kind + "-*")
	for _, dir := range folders {
		if !unused(dir) {
			continue
		}
		unlock, lockErr := tryLock(dir + ".lock")
		if lockErr != nil {
			continue
		}
		if unused(dir) { // still, now that nobody begins to use it
			err = errors.Join(err, os.RemoveAll(dir))
		}
		unlock()
	}
	return err
}

func unused(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && time.Since(info.ModTime()) > unusedTime
}

// makeOnce makes the folders under other names and renames them when they are complete, so that a folder of the right
// name is always complete.
func (t Tools) makeOnce(ctx context.Context, root string, line *progress.Line) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	line.Status("waiting for another process")
	for _, folder := range t.missing(root) { // each process takes the locks in the same order
		unlock, err := lock(ctx, filepath.Join(root, folder+".lock"))
		if err != nil {
			return err
		}
		defer unlock()
	}
	line.Status("")
	unfinished := map[string]string{}
	for _, folder := range t.missing(root) {
		unfinished[folder] = filepath.Join(root, folder+".unfinished")
		if err := errors.Join(os.RemoveAll(unfinished[folder]), os.Mkdir(unfinished[folder], 0o755)); err != nil {
			return err
		}
	}
	if len(unfinished) == 0 {
		return nil
	}
	err := t.Make(ctx, maps.Clone(unfinished), line)
	for folder, dir := range unfinished {
		if exists(dir) {
			err = errors.Join(err, os.Rename(dir, filepath.Join(root, folder)))
		}
	}
	return err
}

// errLocked is the error of tryLock if the lock is held.
var errLocked = errors.New("locked by another process")

// lock waits for the lock of a file. It polls, as a blocked flock could not be
// given up when ctx ends. The kernel frees the lock of a process that dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for {
		unlock, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}

func tryLock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return func() { _ = file.Close() }, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(errLocked, file.Close())
	default:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
}

func cacheRoot() (string, error) {
	if root := os.Getenv(rootVariable); root != "" {
		return filepath.Abs(root)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for programs (%s can name one): %w", rootVariable, err)
	}
	return filepath.Join(user, "scaledjob-operator"), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
