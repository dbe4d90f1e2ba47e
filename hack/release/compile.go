// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// goBuild compiles the operator so that equal sources and an equal version of Go give equal files.
func (r *release) goBuild(ctx context.Context, platform v1.Platform, file string) error {
	r.say("Compiling the operator for %s. The first time, this takes minutes.", platform)
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	// What the user has set for other builds does not count.
	env := []string{
		"CGO_ENABLED=0", "GOOS=" + platform.OS, "GOARCH=" + platform.Architecture,
		"GOFLAGS=-trimpath", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0",
	}
	_, err = command(ctx, r.root, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X main.version="+r.tag(), "-o", file, "./cmd")
	return err
}
