// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package binary builds the operator. It imports little, so that bin/prepare can use it.
package binary

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
)

const (
	// Module is the module of the operator.
	Module  = "miracle.dev/scaledjob-operator"
	command = Module + "/cmd"
	program = "operator"
)

// built are the paths of the operators of this process: with the race detector, and without it.
var built struct {
	mu    sync.Mutex
	paths map[bool]string
}

// Path returns the path of the operator, built from the source around the working directory by the first call of this
// process, and with the race detector if the caller was built so. It says so on log, which may be nil. Processes share
// the file, so that only the first of them links it.
func Path(ctx context.Context, log io.Writer) (string, error) {
	return build(ctx, log, hasRaceDetector())
}

// Shipped is Path without the race detector, which takes many times the memory.
func Shipped(ctx context.Context, log io.Writer) (string, error) {
	return build(ctx, log, false)
}

func build(ctx context.Context, log io.Writer, race bool) (string, error) {
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.paths[race]; path != "" {
		return path, nil
	}
	if log != nil {
		_, _ = fmt.Fprintln(log, "building the operator …")
	}
	source, err := gobuild.Command{}.Output(ctx, "list", "-m", "-f={{.Dir}}", Module)
	if err != nil {
		return "", fmt.Errorf("looking for the source of the operator: %w", err)
	}
	// What git says of the source must not have the file replaced while tests run.
	args, folder := []string{"build", "-buildvcs=false", "-ldflags=-w"}, fmt.Sprintf("operator-%x", sha256.Sum256(source))
	if testing.Testing() {
		args, folder = append(args, "-tags=quickretry"), folder+"-quick"
	}
	if race {
		args, folder = append(args, "-race"), folder+"-race"
	}
	var path string
	err = toolcache.Shared(ctx, folder, func(dir string) error {
		path = filepath.Join(dir, program)
		_, err := gobuild.Command{}.Output(ctx, append(args, "-o="+path, command)...)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("building the operator: %w", err)
	}
	if built.paths == nil {
		built.paths = map[bool]string{}
	}
	built.paths[race] = path
	return path, nil
}

// hasRaceDetector reports whether this program was built with -race.
func hasRaceDetector() bool {
	info, found := debug.ReadBuildInfo()
	return found && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
