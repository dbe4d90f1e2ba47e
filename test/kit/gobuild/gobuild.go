// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package gobuild runs go build and shows how far it is.
package gobuild

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	// stopTimeout is how long an interrupted build may take to remove its temporary files.
	stopTimeout = 10 * time.Second
	// cached is how the go command says that a package needs no compilation.
	cached = "not installed but available in build cache"
)

// Build is a program to build.
type Build struct {
	Dir     string   // of the module
	Env     []string // besides that of this process
	Flags   []string // of go build, without -o
	Package string
}

// Run writes the program to the file target, and on line how many modules it downloads and packages it compiles.
func (b Build) Run(ctx context.Context, line *progress.Line, target string) error {
	line.Status("looking for what is to be compiled")
	count := counter{line: line}
	stale, err := b.stale(ctx, &count)
	if err != nil {
		return err
	}
	count.compiling, count.total = true, stale
	count.show()
	_, err = b.command(ctx, &count, "build", "-v", "-o="+target)
	return err
}

// stale returns how many packages have to be compiled. The first time, the modules are downloaded meanwhile.
func (b Build) stale(ctx context.Context, count *counter) (int, error) {
	reasons, err := b.command(ctx, count, "list", "-deps", "-f={{.StaleReason}}")
	if err != nil {
		return 0, err
	}
	stale := 0
	for reason := range strings.Lines(reasons) {
		if reason = strings.TrimSpace(reason); reason != "" && reason != cached {
			stale++
		}
	}
	return stale, nil
}

// command runs the go command and returns its standard output.
func (b Build) command(ctx context.Context, count *counter, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat(args, b.Flags, []string{b.Package})...)
	cmd.Dir, cmd.Env = b.Dir, append(os.Environ(), b.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	var output bytes.Buffer
	cmd.Stdout = &output
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	messages := count.read(stderr)
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, messages)
	}
	return output.String(), nil
}

// counter counts the lines of the go command.
type counter struct {
	line       *progress.Line
	compiling  bool
	total      int // of the packages to compile
	downloaded int
	compiled   int
}

// read counts until the end, and returns the lines that are no progress.
func (c *counter) read(from io.Reader) (messages string) {
	var rest strings.Builder
	for lines := bufio.NewScanner(from); lines.Scan(); c.show() {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "go: downloading "):
			c.downloaded++
		case c.compiling && !strings.ContainsAny(text, " \t"):
			c.compiled++
		default:
			rest.WriteString(text + "\n")
		}
	}
	_, _ = io.Copy(&rest, from) // a line that is too long to scan
	return rest.String()
}

func (c *counter) show() {
	switch {
	case !c.compiling:
		c.line.Status("downloading modules, %d so far", c.downloaded)
	case c.compiled < c.total:
		c.line.Status("compiling, %d of %d packages", c.compiled, c.total)
	default:
		c.line.Status("linking")
	}
}
