// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package program finds the redis-server that tests run.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/debian"
)

const (
	// serverVariable names the environment variable that selects a server: by its path, or Valkey by its name.
	serverVariable = "REDIS_SERVER"
	valkey         = "valkey"

	versionTimeout = 30 * time.Second
)

var (
	errNoServer = errors.New(
		"no redis-server on PATH: install Redis 7.0 or Valkey 7.2, or newer, or set " + serverVariable + "=/path/to/redis-server")
	errNoValkey = errors.New(
		serverVariable + "=" + valkey + " fetches Valkey on Debian only: elsewhere set " + serverVariable + "=/path/to/valkey-server")
)

// Path returns the path of a redis-server: the one REDIS_SERVER names, the one on PATH, or on Debian and its kin one
// fetched into the cache folder, with progress on log. REDIS_SERVER=valkey fetches a valkey-server. Nothing is
// installed on the system, so that no root is needed and no service starts.
func Path(ctx context.Context, log io.Writer) (string, error) {
	switch named := os.Getenv(serverVariable); named {
	case "":
	case valkey:
		if !debian.Available() {
			return "", errNoValkey
		}
		return valkeyServer.path(ctx, log)
	default:
		return lookUp(named)
	}
	if path, err := exec.LookPath(redisServer.name); err == nil {
		return path, nil
	}
	if !debian.Available() {
		return "", errNoServer
	}
	path, err := redisServer.path(ctx, log)
	if err != nil {
		return "", fmt.Errorf("%w (or set %s=/path/to/redis-server)", err, serverVariable)
	}
	return path, nil
}

// lookUp returns the path of the program that REDIS_SERVER names.
func lookUp(named string) (string, error) {
	path, err := exec.LookPath(named)
	if err != nil {
		return "", fmt.Errorf("%s=%s: %w", serverVariable, named, errors.Unwrap(err))
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s=%s is a relative path, and each test runs in a folder of its own", serverVariable, named)
	}
	return path, nil
}

// versioned matches what a server says with --version: "Redis server v=7.0.15 sha=…".
var versioned = regexp.MustCompile(`^(\w+) server v=(\S+)`)

// Version returns what a server calls itself: "Redis 7.0.15". It fails if the program is none.
func Version(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second // a script may leave a process behind that keeps the output open
	output, err := cmd.CombinedOutput()
	match := versioned.FindSubmatch(output)
	if err != nil || match == nil {
		said, _, _ := strings.Cut(string(output), "\n")
		return "", fmt.Errorf("%s is not a Redis or Valkey server, or does not run: --version says %q", path, said)
	}
	return fmt.Sprintf("%s %s", match[1], match[2]), nil
}
