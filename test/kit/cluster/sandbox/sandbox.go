// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs the servers a test needs: child processes, the folder they work in and the ports they listen on.
// All three end together, at Close or with the process that started them, even when that is killed.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

const (
	// A folder is renamed from the first prefix to the second once its lock is
	// held, so that sweep never meets a folder its owner has yet to lock.
	unlockedPrefix = "scaledjob-new-"
	lockedPrefix   = "scaledjob-run-"
)

// Sandbox is a private folder, the processes working in it and their ports. It is safe for concurrent use.
type Sandbox struct {
	dir  string
	lock *os.File

	mu        sync.Mutex
	closed    bool
	processes []*Process
	ports     []portClaim
}

// New makes a sandbox with an empty folder below os.TempDir. It also removes
// the folders of sandboxes whose process died before it could call Close.
func New() (*Sandbox, error) {
	sweep()
	unlocked, err := os.MkdirTemp("", unlockedPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a folder for child processes: %w", err)
	}
	lock, err := lockFolder(unlocked)
	if err != nil {
		return nil, errors.Join(err, os.Remove(unlocked))
	}
	random := strings.TrimPrefix(filepath.Base(unlocked), unlockedPrefix)
	dir := filepath.Join(filepath.Dir(unlocked), lockedPrefix+random)
	if err := os.Rename(unlocked, dir); err != nil {
		return nil, errors.Join(err, lock.Close(), os.Remove(unlocked))
	}
	return &Sandbox{dir: dir, lock: lock}, nil
}

// Dir returns the folder, which is the working directory of every process and holds their output as <name>.log.
func (s *Sandbox) Dir() string { return s.dir }

// Start runs the program at path with args. The name is for messages and for
// the log file; a process started again under the same name appends to it.
func (s *Sandbox) Start(name, path string, args ...string) (*Process, error) {
	return s.StartWith(nil, name, path, args...)
}

// StartWith is Start with more variables in the environment, each as NAME=value.
func (s *Sandbox) StartWith(environment []string, name, path string, args ...string) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("starting %s: the sandbox is closed", name)
	}
	logPath := filepath.Join(s.dir, name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), environment...)
	// A relative path is the caller's, not relative to Dir.
	if cmd.Path, err = filepath.Abs(cmd.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), log.Close())
	}
	process := &Process{name: name, logPath: logPath, cmd: cmd, exited: make(chan struct{})}
	if err := process.start(log); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.processes = append(s.processes, process)
	return process, nil
}

// Close kills the processes, the last started first, and removes the folder. Closing again does nothing.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, process := range slices.Backward(s.processes) {
		errs = append(errs, process.Kill())
	}
	for _, port := range s.ports {
		errs = append(errs, port.Close())
	}
	errs = append(errs, os.RemoveAll(s.dir), s.lock.Close())
	return errors.Join(errs...)
}

// sweep removes folders nobody holds the lock of. It is a courtesy to the
// user's disk, so that whatever stands in its way is left for the next time.
func sweep() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), lockedPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := lockFolder(dir)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

// lockFolder takes the lock of a folder, or fails if another process has it.
// The kernel frees the lock when the file is closed or its process ends.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder %s: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the folder %s: %w", dir, err), file.Close())
	}
	return file, nil
}
