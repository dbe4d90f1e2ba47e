// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// command runs a program in a folder and returns its standard output. Its standard error becomes the text of the error.
func command(ctx context.Context, folder string, env []string, program string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = folder, append(os.Environ(), env...), &stderr
	out, err := cmd.Output()
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, errors.New("interrupted")
	}
	if text := strings.TrimSpace(stderr.String()); text != "" {
		err = errors.New(text)
	}
	return nil, fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err)
}
