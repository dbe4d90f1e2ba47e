// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

const (
	module  = "miracle.dev/scaledjob-operator"
	command = module + "/cmd"
)

// buildStopTimeout is how long an interrupted build may take to clean up.
const buildStopTimeout = 10 * time.Second

// built is the operator of this process. Its folder is removed by the next
// process that makes a sandbox.
var built struct {
	mu   sync.Mutex
	box  *sandbox.Sandbox // keeps the folder: without it others may sweep it
	path string
}

// Binary returns the path of the operator, built from the source around the
// working directory by the first call of this process, and with the race
// detector if the caller was built so. It says so on log, which may be nil.
func Binary(ctx context.Context, log io.Writer) (string, error) {
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.path != "" {
		return built.path, nil
	}
	if log != nil {
		_, _ = fmt.Fprintln(log, "building the operator …")
	}
	box, err := sandbox.New()
	if err != nil {
		return "", err
	}
	path := filepath.Join(box.Dir(), processName)
	args := []string{"build", "-o=" + path}
	if hasRaceDetector() {
		args = append(args, "-race")
	}
	if _, err := goCommand(ctx, append(args, command)...); err != nil {
		return "", errors.Join(fmt.Errorf("building the operator: %w", err), box.Close())
	}
	built.box, built.path = box, path
	return path, nil
}

// hasRaceDetector reports whether this program was built with -race.
func hasRaceDetector() bool {
	info, found := debug.ReadBuildInfo()
	return found && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// goCommand returns the standard output of the go command.
func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	// Interrupted, the go command removes its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = buildStopTimeout
	output, err := cmd.Output()
	if failed, isExit := errors.AsType[*exec.ExitError](err); isExit {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, failed.Stderr)
	}
	return output, err
}
