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
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	// Program is the name of the program in the folder, if it holds one. A folder without it is made again.
	Program string
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
	dirs, err := Tools{Programs: map[string]string{t.Folder: t.Program}, Activity: t.Activity, Make: fill}.Dirs(ctx, log)
	return dirs[t.Folder], err
}

// Tools are folders of the cache that are made together.
type Tools struct {
	// Programs has the Folder of each Tool, and its Program.
	Programs map[string]string
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
			return nil, fmt.Errorf("%s: %w", t.Activity, withRemedy(root, err))
		}
	}
	dirs := map[string]string{}
	for folder, program := range t.Programs {
		if dir := filepath.Join(root, folder); complete(dir, program) {
			dirs[folder] = dir
		}
	}
	return dirs, nil
}

// missing returns the names of the folders that are not complete, sorted.
func (t Tools) missing(root string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.Programs)), func(folder string) bool {
		return complete(filepath.Join(root, folder), t.Programs[folder])
	})
}

// Exists reports whether a folder of the cache has its program.
func Exists(folder, program string) (bool, error) {
	root, err := cacheRoot()
	return err == nil && complete(filepath.Join(root, folder), program), err
}

// complete reports whether a folder exists and, if it is to have a program, has a file that may be one.
func complete(dir, program string) bool {
	info, err := os.Stat(filepath.Join(dir, program))
	return err == nil && (program == "" || info.Mode().IsRegular() && info.Size() > 0 && info.Mode().Perm()&0o100 != 0)
}

// Remedy says how to replace a program that does not run. It is empty if the program is not in the cache.
func Remedy(path string) string {
	root, err := cacheRoot()
	inside, isInside := strings.CutPrefix(path, root+string(filepath.Separator))
	if err != nil || !isInside {
		return ""
	}
	folder, _, _ := strings.Cut(inside, string(filepath.Separator))
	return fmt.Sprintf(". Remove the folder %s, and the same command makes it again", filepath.Join(root, folder))
}

// withRemedy adds to an error how to choose another cache folder, if that may help.
func withRemedy(root string, err error) error {
	if err == nil {
		return nil
	}
	fault, isFault := errors.AsType[*fs.PathError](err)
	isHere := isFault && (strings.HasPrefix(fault.Path, root) || strings.HasPrefix(root, fault.Path))
	mayHelp := strings.Contains(err.Error(), root) && strings.Contains(err.Error(), "no space left on device") // says Go
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission} {
		mayHelp = mayHelp || isHere && errors.Is(fault, cause)
	}
	if !mayHelp {
		return err
	}
	return fmt.Errorf("%w (%s selects another folder; about 500 MB are needed)", err, rootVariable)
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
		return withRemedy(root, err)
	}
	unlock, err := lock(ctx, dir+".lock", func() {})
	if err != nil {
		return withRemedy(root, err)
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
	return withRemedy(root, do(dir))
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
	waiting := sync.OnceFunc(func() {
		line.Status("waiting for another process")
		line.Say("Waiting for another process that does the same: %s.", t.Activity)
	})
	for _, folder := range t.missing(root) { // each process takes the locks in the same order
		unlock, err := lock(ctx, filepath.Join(root, folder+".lock"), waiting)
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
			err = errors.Join(err, keep(dir, filepath.Join(root, folder)))
		}
	}
	return err
}

// keep renames a folder when its files are on the disk, so that none is cut off after a power failure.
func keep(from, to string) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
	if err == nil {
		err = os.RemoveAll(to) // an incomplete folder
	}
	if err == nil {
		err = os.Rename(from, to)
	}
	return err
}

// errLocked is the error of tryLock if the lock is held.
var errLocked = errors.New("locked by another process")

// lock waits for the lock of a file. It polls, as a blocked flock could not be
// given up when ctx ends. The kernel frees the lock of a process that dies. It
// calls waiting if another process has the lock.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for {
		unlock, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		waiting()
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
