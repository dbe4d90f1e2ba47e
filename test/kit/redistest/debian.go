// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/debian"
)

const (
	// debianPackage holds the server under the name redis-check-rdb: it is one
	// program that acts by the name it is called. The package redis-server
	// adds nothing but a system service.
	debianPackage = "redis-tools"
	debianProgram = "redis-check-rdb"

	launcher   = "redis-server" // in the tool's folder, starts the program
	packageDir = "root"         // there, what the packages hold
)

// debianServer returns the path of a redis-server made from the packages of
// the Debian release it runs on.
func debianServer(ctx context.Context, log io.Writer) (string, error) {
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("redis-server-%s-%s", debian.Release(), runtime.GOARCH),
		Activity: "fetching redis-server with apt-get",
		Make:     fetchServer,
	}
	dir, err := tool.Dir(ctx, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, launcher), nil
}

func fetchServer(ctx context.Context, dir string) error {
	root := filepath.Join(dir, packageDir)
	if err := debian.Fetch(ctx, root, debianPackage); err != nil {
		return err
	}
	if err := os.Symlink(debianProgram, filepath.Join(root, "usr/bin", launcher)); err != nil {
		return err
	}
	if err := writeLauncher(dir); err != nil {
		return err
	}
	check := exec.CommandContext(ctx, filepath.Join(dir, launcher), "--version")
	if output, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", check, err, output)
	}
	return nil
}

// writeLauncher writes the script that starts the server with the libraries
// unpacked beside it. It finds them from where it lies, as the folder moves
// when it is complete.
func writeLauncher(dir string) error {
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
`, strings.Join(libraries, ":"), packageDir, launcher)
	return os.WriteFile(filepath.Join(dir, launcher), []byte(script), 0o755)
}
