// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package pinned has programs of other projects, in the versions that the modules below hack/tools pin. It must be used
// from inside the source of this module.
package pinned

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/operator/binary"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// tools is the folder of the modules that pin versions.
const tools = "hack/tools"

// Program is a program of another project.
type Program struct {
	// Title is its name for people, and Name that of its file.
	Title, Name string
	// Module is the module that has it, and Command its package.
	Module, Command string
	// Others are packages of programs that are built with it. Their files have the last words of these names.
	Others []string
	// Tags are build tags, separated by commas.
	Tags string
	// Pins is the folder below hack/tools of the module that says which version is built.
	Pins string
	// Add puts more files of the module into a folder. Nil means none.
	Add func(ctx context.Context, module, folder string) error
}

// Build returns a folder with the program and the files of Add, from the cache folder if it was built before. Otherwise
// that takes minutes, with progress on log.
func (p Program) Build(ctx context.Context, log io.Writer) (folder string, err error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, filepath.FromSlash(tools), p.Pins)
	version, err := goCommand(ctx, source, "list", "-m", "-f={{.Version}}", p.Module)
	if err != nil {
		return "", fmt.Errorf("looking for the version of %s: %w", p.Title, err)
	}
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("%s-%s-%s-%s", p.Name, version, runtime.GOOS, runtime.GOARCH),
		Program:  p.Name,
		Activity: p.Title + " " + version,
		Make: func(ctx context.Context, folder string, line *progress.Line) error {
			return p.fill(ctx, source, folder, line)
		},
	}
	return tool.Dir(ctx, log)
}

// fill puts the program and the files of Add into a folder.
func (p Program) fill(ctx context.Context, source, folder string, line *progress.Line) error {
	build := gobuild.Build{
		Dir: source, Env: []string{"GOWORK=off"}, Flags: []string{"-buildvcs=false", "-tags=" + p.Tags},
		Packages: append([]string{p.Command}, p.Others...), Output: filepath.Join(folder, p.Name),
	}
	if len(p.Others) > 0 {
		build.Output = folder + "/"
	}
	if err := build.Run(ctx, line); err != nil || p.Add == nil {
		return err
	}
	module, err := goCommand(ctx, source, "list", "-m", "-f={{.Dir}}", p.Module)
	if err != nil {
		return err
	}
	return p.Add(ctx, module, folder)
}

// Source is the folder of a module, in the version that the module in a folder below hack/tools pins. It builds nothing.
func Source(ctx context.Context, pins, module string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	output, err := goCommand(ctx, filepath.Join(root, filepath.FromSlash(tools), pins), "mod", "download", "-json", module)
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(output), &downloaded); err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	return downloaded.Dir, nil
}

// Root is the folder of the source of this module.
func Root(ctx context.Context) (string, error) {
	root, err := goCommand(ctx, "", "list", "-m", "-f={{.Dir}}", binary.Module)
	if err != nil {
		return "", fmt.Errorf("looking for the source: %w", err)
	}
	return root, nil
}

// Kustomize renders the kustomization in a folder.
func Kustomize(ctx context.Context, folder string) ([]byte, error) {
	root, err := Root(ctx)
	if err != nil {
		return nil, err
	}
	modules := filepath.Join(root, filepath.FromSlash(tools), "go.mod")
	return gobuild.Command{}.Output(ctx, "tool", "-modfile="+modules, "kustomize", "build", folder)
}

// goCommand returns what the go command prints, without the end of the line.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	output, err := gobuild.Command{Dir: dir, Env: []string{"GOWORK=off"}}.Output(ctx, args...)
	return strings.TrimSpace(string(output)), err
}
