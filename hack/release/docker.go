// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
)

// dockerBuild builds the image with Docker, for the platform of the machine.
func (r *release) dockerBuild(ctx context.Context, errs io.Writer) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errors.New("there is no docker here; make release builds the same image without it")
	}
	cmd := exec.CommandContext(ctx, "docker", r.dockerArguments()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, r.out, errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("docker build: %w", err)
	}
	return nil
}

// dockerArguments gives the Dockerfile the version and the labels of the image.
func (r *release) dockerArguments() []string {
	arguments := []string{"build", "--build-arg=VERSION=" + r.tag(), "--tag=" + r.reference("")}
	labels := r.labels()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		arguments = append(arguments, "--label="+key+"="+labels[key])
	}
	return append(arguments, ".")
}
