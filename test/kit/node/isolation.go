// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

const (
	// stageVariable tells the program which of the three processes of Isolated it is.
	stageVariable = "SCALEDJOB_NODE_STAGE"
	stageInit     = "init"
	stageTests    = "tests"

	namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
)

// Isolated runs tests in namespaces of their own for mounts, processes and the network, and returns the exit code for
// TestMain. So a node does not meet what runs on the machine, and when the process ends, however it does, the kernel
// ends all containers and removes mounts, interfaces and packet filters. Unless it is killed, the process also restores
// the few settings that a node changes for the whole machine.
//
// The program runs itself again, first as process 1 of the namespaces, and below that as the tests. What needs the
// network outside has to be done before, by Prepare.
func Isolated(tests func() int) int {
	var code int
	var err error
	switch os.Getenv(stageVariable) {
	case stageTests:
		return tests()
	case stageInit:
		code, err = runInit()
	default:
		code, err = runAgain()
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// checkIsolated fails outside the namespaces of Isolated, where a node would change the network of the machine, and its
// end would kill all processes.
func checkIsolated() error {
	first, err := os.Readlink("/proc/1/exe")
	if err != nil {
		return err
	}
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	if first != own {
		return errors.New("a node starts only in the namespaces of Isolated")
	}
	return nil
}

// runAgain starts this program in new namespaces and waits for its end. The kernel kills it when this thread ends.
func runAgain() (code int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := again(stageInit)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	err = restoringHost(cmd.Run)
	if failed, isExit := errors.AsType[*exec.ExitError](err); isExit && failed.ExitCode() > 0 {
		return failed.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("running the tests in namespaces of their own: %w", err)
	}
	return 0, nil
}

func again(stage string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageVariable+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// runInit is process 1. It prepares the mounts, starts the tests, and waits for every process whose parent has ended,
// as containers' shims do.
func runInit() (code int, err error) {
	if err := mountOwn(); err != nil {
		return 1, err
	}
	cmd := again(stageTests)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("waiting for the tests: %w", err)
		case pid == cmd.Process.Pid && status.Signaled():
			return 1, fmt.Errorf("the tests ended by %s", status.Signal())
		case pid == cmd.Process.Pid:
			return status.ExitStatus(), nil
		}
	}
}

// mountOwn hides the machine's processes, and what its own containerd and CNI keep.
func mountOwn() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, folder := range []string{"/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting %s: %w", folder, err)
		}
	}
	return nil
}

// unmountBelow unmounts everything below a folder, the innermost first, so that it can be removed.
func unmountBelow(folder string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			points = append([]string{fields[4]}, points...)
		}
	}
	var errs []error
	for _, point := range points {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
