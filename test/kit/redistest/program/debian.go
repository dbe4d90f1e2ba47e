// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/debian"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// packaged is a server in a package of Debian. The tools hold it under the name of a checker: it is one program that
// acts by the name it is called. The package of the server adds nothing but a system service.
type packaged struct {
	name    string // of the program
	tools   string // the package
	checker string // the name of the program there
	fetch   func(ctx context.Context, dir, name string) error
}

var (
	redisServer = packaged{
		name: "redis-server", tools: "redis-tools", checker: "redis-check-rdb",
		fetch: func(ctx context.Context, dir, name string) error { return debian.Fetch(ctx, dir, name) },
	}
	valkeyServer = packaged{
		name: "valkey-server", tools: "valkey-tools", checker: "valkey-check-rdb", fetch: debian.FetchBackport,
	}
)

// packageDir holds what the packages hold, in the folder of the tool.
const packageDir = "root"

// path returns the path of the server, made from the packages of the Debian release it runs on.
func (p packaged) path(ctx context.Context, log io.Writer) (string, error) {
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("%s-%s-%s", p.name, debian.Release(), runtime.GOARCH),
		Program:  p.name,
		Activity: fmt.Sprintf("fetching %s with apt-get", p.name),
		Make:     p.fill,
	}
	dir, err := tool.Dir(ctx, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, p.name), nil
}

func (p packaged) fill(ctx context.Context, dir string, _ *progress.Line) error {
	root := filepath.Join(dir, packageDir)
	if err := p.fetch(ctx, root, p.tools); err != nil {
		return err
	}
	if err := os.Symlink(p.checker, filepath.Join(root, "usr/bin", p.name)); err != nil {
		return err
	}
	if err := p.writeLauncher(dir); err != nil {
		return err
	}
	_, err := Version(ctx, filepath.Join(dir, p.name))
	return err
}

// writeLauncher writes the script that starts the server with the libraries unpacked beside it. It finds them from
// where it lies, as the folder moves when it is complete.
func (p packaged) writeLauncher(dir string) error {
	folders, err := debian.LibraryFolders(filepath.Join(dir, packageDir))
	if err != nil {
		return err
	}
	var libraries []string
	for _, folder := range folders {
		libraries = append(libraries, "$here"+strings.TrimPrefix(folder, dir))
	}
	script := fmt.Sprintf(`#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH="%s" exec "$here/%s/usr/bin/%s" "$@"
`, strings.Join(libraries, ":"), packageDir, p.name)
	return os.WriteFile(filepath.Join(dir, p.name), []byte(script), 0o755)
}
