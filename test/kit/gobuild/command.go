// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

// shownFaults is how many of the modules that could not be downloaded an error lists.
const shownFaults = 3

// Command says where and how the go command runs.
type Command struct {
	Dir string   // the working directory, if it is another
	Env []string // besides that of this process
	// read returns the messages among what the go command writes to its standard error. Without it, all of that is one.
	read func(stderr io.Reader) (messages string)
}

// Output runs the go command and returns its standard output. When ctx ends, the go command and its children are killed:
// most of its subcommands do not handle signals. So its temporary files are in a folder that is removed here.
func (c Command) Output(ctx context.Context, args ...string) ([]byte, error) {
	scratch, err := scratchFolder()
	if err != nil {
		return nil, err
	}
	defer func() { _ = scratch.Close() }() // what is left is removed the next time
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout = c.Dir, &output
	cmd.Env = slices.Concat(os.Environ(), []string{"GOTMPDIR=" + scratch.Dir(), "TMPDIR=" + scratch.Dir()}, c.Env)
	cmd.SysProcAttr = sandbox.DieWithParent()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	messages, err := c.run(cmd)
	switch {
	case err == nil:
		return output.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, fmt.Errorf("%s %s: %w\n%s", cmd.Path, args[0], err, explain(messages))
	}
}

// run returns what the command says. It keeps the thread, because the command would die with it.
func (c Command) run(cmd *exec.Cmd) (messages string, err error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if c.read != nil {
		messages = c.read(stderr)
	} else {
		content, readErr := io.ReadAll(stderr)
		messages, err = string(content), readErr
	}
	return messages, cmp.Or(cmd.Wait(), err)
}

// scratchFolder makes a folder for temporary files where Go would have them, for the go command runs in another folder.
func scratchFolder() (*sandbox.Sandbox, error) {
	parent, err := filepath.Abs(temporary())
	if err != nil {
		return nil, err
	}
	scratch, err := sandbox.NewIn(parent)
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%s%w", diskFull(), err)
	}
	return scratch, err
}

func temporary() string { return cmp.Or(os.Getenv("GOTMPDIR"), os.TempDir()) }

func diskFull() string {
	return fmt.Sprintf("the disk is full: Go's caches (go env GOCACHE GOMODCACHE) and %s need a few GB: ", temporary())
}

// undownloaded matches what the go command says of a module that it could not download.
var undownloaded = regexp.MustCompile(`Get "https?://|reading https?://|disabled by GOPROXY=off|unable to access '`)

// explain returns the messages of a failed go command for a person. Without a network, there are hundreds.
func explain(messages string) string {
	switch lines := strings.Split(strings.TrimSpace(messages), "\n"); {
	case strings.Contains(messages, "no space left on device"):
		return diskFull() + messages
	case undownloaded.MatchString(messages):
		if more := len(lines) - shownFaults; more > 0 {
			lines = append(lines[:shownFaults], fmt.Sprintf("and %d more", more))
		}
		return strings.Join(append(lines, "Go could not download all modules (see go env GOPROXY and HTTPS_PROXY). "+
			"Those that came are kept: repeat the command when the network works."), "\n")
	default:
		return messages
	}
}
