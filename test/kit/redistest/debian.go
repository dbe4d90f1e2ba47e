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
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
)

const (
	// debianPackage holds the server under the name redis-check-rdb: it is one
	// program that acts by the name it is called. The package redis-server
	// adds nothing but a system service.
	debianPackage = "redis-tools"
	debianProgram = "redis-check-rdb"

	launcher   = "redis-server" // in the tool's folder, starts the program
	aptDir     = "apt"          // there, while the packages are fetched
	packageDir = "root"         // there, what the packages hold
)

func hasDebianTools() bool {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

// debianServer returns the path of a redis-server made from the packages of
// the Debian release it runs on.
func debianServer(ctx context.Context, log io.Writer) (string, error) {
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("redis-server-%s-%s", release(), runtime.GOARCH),
		Activity: "fetching redis-server with apt-get",
		Make:     fetchServer,
	}
	dir, err := tool.Dir(ctx, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, launcher), nil
}

// release returns the name and version of the system: "debian-12".
func release() string {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "unknown"
	}
	values := map[string]string{}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"`)
	}
	return values["ID"] + "-" + values["VERSION_ID"]
}

func fetchServer(ctx context.Context, dir string) error {
	apt, root := filepath.Join(dir, aptDir), filepath.Join(dir, packageDir)
	packages, err := download(ctx, apt)
	if err != nil {
		return err
	}
	for _, file := range packages {
		if err := run(ctx, "dpkg-deb", "--extract", file, root); err != nil {
			return err
		}
	}
	if err := os.Symlink(debianProgram, filepath.Join(root, "usr/bin", launcher)); err != nil {
		return err
	}
	if err := writeLauncher(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(apt); err != nil {
		return err
	}
	return run(ctx, filepath.Join(dir, launcher), "--version")
}

// download fetches the package, and those it needs that the system lacks, and
// returns the paths of the files. Lists and archives stay below dir, so that
// it works for every user and leaves the system's own alone.
func download(ctx context.Context, dir string) ([]string, error) {
	lists, archives := filepath.Join(dir, "state/lists"), filepath.Join(dir, "cache/archives")
	for _, folder := range []string{lists, archives} {
		if err := os.MkdirAll(filepath.Join(folder, "partial"), 0o755); err != nil {
			return nil, err
		}
	}
	private := []string{
		"--quiet",
		"--option", "Dir::State=" + filepath.Join(dir, "state"),
		"--option", "Dir::State::status=/var/lib/dpkg/status",
		"--option", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"--option", "Debug::NoLocking=true",
		// Run by root, apt would else download as a user that cannot enter dir.
		"--option", "APT::Sandbox::User=root",
	}
	// Reinstall fetches the package even where it is installed already.
	fetch := []string{"install", "--yes", "--download-only", "--reinstall", "--no-install-recommends", debianPackage}
	for _, command := range [][]string{{"update"}, fetch} {
		if err := run(ctx, "apt-get", slices.Concat(private, command)...); err != nil {
			return nil, err
		}
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
}

// writeLauncher writes the script that starts the server with the libraries
// unpacked beside it. It finds them from where it lies, as the folder moves
// when it is complete.
func writeLauncher(dir string) error {
	var libraries []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, err := filepath.Glob(filepath.Join(dir, packageDir, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			libraries = append(libraries, "$here"+strings.TrimPrefix(path, dir))
		}
	}
	script := fmt.Sprintf(`#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH="%s" exec "$here/%s/usr/bin/%s" "$@"
`, strings.Join(libraries, ":"), packageDir, launcher)
	return os.WriteFile(filepath.Join(dir, launcher), []byte(script), 0o755)
}

// run runs a command, with what it wrote in the error if it fails.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return nil
}
