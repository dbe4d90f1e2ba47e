// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian fetches packages of the Debian release that it runs on, or of
// one derived from it, and unpacks them into a folder. Nothing is installed on the system,
// so that no root is needed and no service starts.
package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const aptDir = ".apt" // in the folder, while Fetch works

// Available reports whether packages can be fetched and unpacked.
func Available() bool {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

// LibraryFolders returns the folders with the libraries of the programs that Fetch
// has unpacked into root.
func LibraryFolders(root string) ([]string, error) {
	var folders []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		folders = append(folders, found...)
	}
	return folders, nil
}

// Release returns the name and version of the system: "debian-12".
func Release() string {
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

// Fetch unpacks packages, and those they need that the system lacks, into dir.
func Fetch(ctx context.Context, dir string, packages ...string) error {
	apt := filepath.Join(dir, aptDir)
	files, err := download(ctx, apt, packages)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := run(ctx, "dpkg-deb", "--extract", file, dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(apt)
}

// download fetches packages, and those they need that the system lacks, and
// returns the paths of the files. Lists and archives stay below dir, so that
// it works for every user and leaves the system's own alone.
func download(ctx context.Context, dir string, packages []string) ([]string, error) {
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
	// Reinstall fetches packages even where they are installed already.
	fetch := []string{"install", "--yes", "--download-only", "--reinstall", "--no-install-recommends"}
	for _, command := range [][]string{{"update"}, slices.Concat(fetch, packages)} {
		if err := run(ctx, "apt-get", slices.Concat(private, command)...); err != nil {
			return nil, err
		}
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
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
