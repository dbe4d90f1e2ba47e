// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs has the programs that tests and the demo run. The script hack/programs.sh downloads or compiles
// them, once per version. The package must be used from inside the source of this module.
package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	root   = "module miracle.dev/scaledjob-operator\n"
	script = "hack/programs.sh"
	// interruptTimeout is how long a command may take to end after an interrupt.
	interruptTimeout = 10 * time.Second
)

// variables are those of the script. Go repeats the tests of a package when one of those changes that it has read.
var variables = []string{"KUBEBUILDER_ASSETS", "K8S", "PARTS", "PARTS_MIRROR", "REDIS_SERVER", "SCALEDJOB_CACHE"}

// found are the paths of the programs that this process has asked for.
var found = struct {
	mu    sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}

// Path is Paths for one program.
func Path(ctx context.Context, log io.Writer, name string) (string, error) {
	paths, err := Paths(ctx, log, name)
	return paths[name], err
}

// Paths returns the path of each program by its name in the script. Those that are missing are downloaded or compiled
// now, which takes minutes, with progress on log. A nil log shows none.
func Paths(ctx context.Context, log io.Writer, names ...string) (map[string]string, error) {
	found.mu.Lock()
	defer found.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found.paths[name] != "" })
	if len(missing) > 0 {
		if err := get(ctx, log, missing); err != nil {
			return nil, err
		}
	}
	paths := map[string]string{}
	for _, name := range names {
		paths[name] = found.paths[name]
	}
	return paths, nil
}

// get runs the script, and keeps the paths that it prints.
func get(ctx context.Context, log io.Writer, names []string) error {
	source, err := Root()
	if err != nil {
		return err
	}
	for _, name := range variables {
		_ = os.Getenv(name)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(source, filepath.FromSlash(script)), names...)
	cmd.Stderr = log
	output, err := run(cmd)
	if err != nil {
		return err
	}
	for line := range strings.Lines(output) {
		name, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		found.paths[name] = path
	}
	return nil
}

// Operator returns the path of the operator, built from this source, and with the race detector if this program was
// built so. In tests, it retries sooner.
func Operator(ctx context.Context, log io.Writer) (string, error) {
	info, known := debug.ReadBuildInfo()
	if known && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return Path(ctx, log, operator()+"-race")
	}
	return Shipped(ctx, log)
}

// Shipped is Operator without the race detector, which takes many times the memory.
func Shipped(ctx context.Context, log io.Writer) (string, error) { return Path(ctx, log, operator()) }

func operator() string {
	if testing.Testing() {
		return "operator-quick"
	}
	return "operator"
}

// Root is the folder of the source of this module.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		content, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
		if bytes.HasPrefix(content, []byte(root)) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("the working directory is not inside the source of the operator")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Source is the folder of a module of another project, in the version that the module in a folder below hack/tools
// pins.
func Source(ctx context.Context, pins, module string) (string, error) {
	source, err := Root()
	if err != nil {
		return "", err
	}
	pins = filepath.Join(source, "hack", "tools", pins)
	if _, err := Go(ctx, pins, "mod", "download", module); err != nil {
		return "", err
	}
	dir, err := Go(ctx, pins, "list", "-m", "-f={{.Dir}}", module)
	return strings.TrimSpace(dir), err
}

// Kustomize renders the kustomization in a folder.
func Kustomize(ctx context.Context, folder string) (string, error) {
	source, err := Root()
	if err != nil {
		return "", err
	}
	return Go(ctx, source, "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", folder)
}

// Go runs the go command in a folder, and returns its standard output.
func Go(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	return run(cmd)
}

// run runs a command and returns its standard output. Its standard error is in the error, unless it goes elsewhere.
// When the context ends, the command is interrupted. What a script compiles at that moment goes on, and keeps its lock.
func run(cmd *exec.Cmd) (string, error) {
	var output, said bytes.Buffer
	cmd.Stdout = &output
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptTimeout
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return output.String(), nil
}
