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

// command runs a program in a folder and returns what it prints. What it complains of becomes the error.
func command(ctx context.Context, folder string, env []string, program string, args ...string) ([]byte, error) {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = folder, append(os.Environ(), env...), &complaint
	out, err := cmd.Output()
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, errors.New("interrupted")
	}
	if said := strings.TrimSpace(complaint.String()); said != "" {
		err = errors.New(said)
	}
	return nil, fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err)
}
