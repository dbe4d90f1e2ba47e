// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The packages of the programs that a release has.
const (
	operatorPackage = "./cmd"
	pluginPackage   = "./cmd/" + plugin
)

// titles are the programs in words.
var titles = map[string]string{operatorPackage: "the operator", pluginPackage: plugin}

// goBuild compiles a program so that equal sources and an equal version of Go give equal files.
func (r *release) goBuild(ctx context.Context, platform v1.Platform, program, file string) error {
	r.say("Compiling %s for %s. The first time, this takes minutes.", titles[program], platform)
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	env, err := r.goSettings(ctx)
	if err != nil {
		return err
	}
	// What the user has set for other builds does not count.
	env = append(env,
		"CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off", "GOENV=off",
	)
	_, err = command(ctx, r.root, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X main.version="+r.tag(), "-o", file, program)
	return err
}

// goSettings returns those settings of the user that count, wherever they are set: which Go compiles, where modules
// come from, and the caches.
func (r *release) goSettings(ctx context.Context) ([]string, error) {
	names := []string{
		"GOTOOLCHAIN", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOAUTH", "GOVCS",
		"GOMODCACHE", "GOCACHE",
	}
	out, err := command(ctx, r.root, nil, "go", append([]string{"env"}, names...)...)
	if err != nil {
		return nil, err
	}
	settings := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	for n, name := range names {
		settings[n] = name + "=" + settings[n]
	}
	return settings, nil
}
