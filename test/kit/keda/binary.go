// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keda

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	module  = "github.com/kedacore/keda/v2"
	command = module + "/cmd/operator"
	// pinnedIn is the module that says which version is built.
	pinnedIn = "hack/tools/keda"
	root     = "miracle.dev/scaledjob-operator"

	// What a folder of the cache has.
	program = "keda-operator"
	crds    = "crds"
)

// Program is KEDA's operator and its CustomResourceDefinitions, as files.
type Program struct {
	folder string
}

// Build returns the program, from the cache folder if it was built before. Otherwise that takes minutes, with progress
// on log. It must be called from inside the source of this module.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	source, err := sourceFolder(ctx)
	if err != nil {
		return Program{}, err
	}
	version, err := goCommand(ctx, source, "list", "-m", "-f={{.Version}}", module)
	if err != nil {
		return Program{}, fmt.Errorf("looking for the version of KEDA: %w", err)
	}
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("%s-%s-%s-%s", program, version, runtime.GOOS, runtime.GOARCH),
		Program:  program,
		Activity: "KEDA " + version,
		Make: func(ctx context.Context, folder string, line *progress.Line) error {
			return fill(ctx, source, folder, line)
		},
	}
	folder, err := tool.Dir(ctx, log)
	return Program{folder: folder}, err
}

// fill puts the program and its CustomResourceDefinitions into a folder.
func fill(ctx context.Context, source, folder string, line *progress.Line) error {
	build := gobuild.Build{
		Dir: source, Env: []string{"GOWORK=off"}, Flags: []string{"-buildvcs=false"},
		Packages: []string{command}, Output: filepath.Join(folder, program),
	}
	if err := build.Run(ctx, line); err != nil {
		return err
	}
	downloaded, err := goCommand(ctx, source, "list", "-m", "-f={{.Dir}}", module)
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(folder, crds), os.DirFS(filepath.Join(downloaded, "config", "crd", "bases")))
}

// sourceFolder is that of the module which pins KEDA.
func sourceFolder(ctx context.Context) (string, error) {
	dir, err := goCommand(ctx, "", "list", "-m", "-f={{.Dir}}", root)
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", pinnedIn, err)
	}
	return filepath.Join(dir, filepath.FromSlash(pinnedIn)), nil
}

// goCommand returns what the go command prints, without the end of the line.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	output, err := gobuild.Command{Dir: dir, Env: []string{"GOWORK=off"}}.Output(ctx, args...)
	return strings.TrimSpace(string(output)), err
}
