// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian fetches packages of the Debian release that it runs on, or of one derived from it, and unpacks them
// into a folder. Nothing is installed on the system, so that no root is needed and no service starts.
package debian

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	aptDir      = ".apt"                  // in the folder, while Fetch works
	sourceList  = "/etc/apt/sources.list" // beside it, the folder sources.list.d
	archiveKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// Available reports whether packages can be fetched and unpacked.
func Available() bool {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

// LibraryFolders returns the folders with the libraries of the programs that Fetch has unpacked into root.
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
	values := release()
	if len(values) == 0 {
		return "unknown"
	}
	return values["ID"] + "-" + values["VERSION_ID"]
}

func release() map[string]string {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return nil
	}
	values := map[string]string{}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"`)
	}
	return values
}

// Fetch unpacks packages, and those they need that the system lacks, into dir.
func Fetch(ctx context.Context, dir string, packages ...string) error {
	return fetch(ctx, dir, packages, nil)
}

// FetchBackport is Fetch for a package that may be only in the backports of the release. On Debian it looks there too,
// even if the system does not.
func FetchBackport(ctx context.Context, dir, name string) error {
	list, err := withBackports(release())
	if err != nil {
		return err
	}
	path := filepath.Join(dir, aptDir, "sources.list")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, list, 0o644)); err != nil {
		return err
	}
	return fetch(ctx, dir, []string{name}, []string{"--option", "Dir::Etc::sourcelist=" + path})
}

// withBackports returns the system's file sources.list, with the backports of its release. It does not add them if any
// file names them already: a source that is there twice, with different keys, is an error.
func withBackports(release map[string]string) ([]byte, error) {
	list, err := os.ReadFile(sourceList)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := slices.Clone(list)
	for _, kind := range []string{"*.list", "*.sources"} { // apt ignores the others
		files, err := filepath.Glob(filepath.Join(sourceList+".d", kind))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, content...)
		}
	}
	backports := release["VERSION_CODENAME"] + "-backports"
	if release["ID"] != "debian" || bytes.Contains(all, []byte(backports)) {
		return list, nil
	}
	return fmt.Appendf(list, "\ndeb [signed-by=%s] http://deb.debian.org/debian %s main\n", archiveKeys, backports), nil
}

func fetch(ctx context.Context, dir string, packages, options []string) error {
	apt := filepath.Join(dir, aptDir)
	files, err := download(ctx, apt, packages, options)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := unpack(ctx, file, dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(apt)
}

// download fetches packages, and those they need that the system lacks, and returns the paths of the files. Lists and
// archives stay below dir, so that it works for every user and leaves the system's own alone.
func download(ctx context.Context, dir string, packages, options []string) ([]string, error) {
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
		"--option", "Acquire::http::Timeout=20",
		"--option", "Acquire::https::Timeout=20",
		"--option", "Acquire::Retries=1",
	}
	// Reinstall fetches packages even where they are installed already.
	fetch := []string{"install", "--yes", "--download-only", "--reinstall", "--no-install-recommends"}
	var said strings.Builder // an update without a network succeeds, and the error of the other command does not say why
	for _, command := range [][]string{{"update"}, slices.Concat(fetch, packages)} {
		cmd := exec.CommandContext(ctx, "apt-get", slices.Concat(private, options, command)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return nil, cmp.Or(ctx.Err(), fmt.Errorf("apt-get %s: %w\n%s", command[0], err, reasons(said.String())))
		}
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
}

// fault matches a line in which apt says what went wrong.
var fault = regexp.MustCompile(`(?m)^(?:E:|W: Failed to fetch) .*$`)

// reasons returns the lines in which apt says what went wrong, or all if there are none.
func reasons(said string) string {
	if lines := fault.FindAllString(said, -1); len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	return said
}

// unpack unpacks a package into a folder.
func unpack(ctx context.Context, file, dir string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--extract", file, dir)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return nil
}
