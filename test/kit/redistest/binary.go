// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"miracle.dev/scaledjob-operator/test/kit/debian"
)

// serverVariable names the environment variable that points at a redis-server.
const serverVariable = "REDIS_SERVER"

var errNoServer = errors.New(
	"no redis-server on PATH: install Redis 7 or newer, or set " + serverVariable + "=/path/to/redis-server")

// Binary returns the path of a redis-server: the one REDIS_SERVER names, the
// one on PATH, or on Debian and its kin one fetched into the cache folder,
// with progress on log. Nothing is installed on the system, so that no root is
// needed and no service starts.
func Binary(ctx context.Context, log io.Writer) (string, error) {
	if named := os.Getenv(serverVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", serverVariable, err)
		}
		return path, nil
	}
	if path, err := exec.LookPath(launcher); err == nil {
		return path, nil
	}
	if !debian.Available() {
		return "", errNoServer
	}
	path, err := debianServer(ctx, log)
	if err != nil {
		return "", fmt.Errorf("%w (or set %s=/path/to/redis-server)", err, serverVariable)
	}
	return path, nil
}
