// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package toolcache keeps the programs tests run in the user's cache folder.
// Each is made once per version, however many processes ask for it at a time.
package toolcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	// rootVariable names the environment variable that replaces the default
	// place, <user's cache folder>/scaledjob-operator.
	rootVariable = "SCALEDJOB_CACHE"

	lockInterval = 100 * time.Millisecond
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
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, t.Folder)
	if exists(dir) {
		return dir, nil
	}
	line := progress.Start(log, t.Activity+", once per version")
	defer line.Stop()
	if err := t.makeOnce(ctx, dir, line); err != nil {
		return "", fmt.Errorf("%s: %w", t.Activity, err)
	}
	return dir, nil
}

// Shared calls do with the path of a folder of the cache that processes share, and lets only one of them in at a time.
func Shared(ctx context.Context, folder string, do func(dir string) error) error {
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	return do(dir)
}

// makeOnce makes the folder under another name and renames it when it is
// complete, so that a folder of the right name is always whole.
func (t Tool) makeOnce(ctx context.Context, dir string, line *progress.Line) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	line.Status("waiting for another process")
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	line.Status("")
	if exists(dir) {
		return nil
	}
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return err
	}
	if err := t.Make(ctx, unfinished, line); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	return os.Rename(unfinished, dir)
}

// lock waits for the lock of a file. It polls, as a blocked flock could not be
// given up when ctx ends. The kernel frees the lock of a process that dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, ctx.Err()), file.Close())
		case <-ticker.C:
		}
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
