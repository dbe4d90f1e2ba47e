// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// How much there is to compile the first time, for the estimate before go list has reported what is stale.
const (
	demoWork         gobuild.Work = 560_000_000
	controlPlaneWork gobuild.Work = 930_000_000 // without what the demo imports
)

// prepareDemo downloads the control plane while it compiles the demo, and compiles what could not be downloaded.
func prepareDemo(ctx context.Context, log io.Writer) error {
	missing, err := binaries.Missing(binaries.Demo()...)
	if err != nil {
		return err
	}
	announce(log, missing)
	var after atomic.Int64 // what is left to compile when the demo is
	group, together := errgroup.WithContext(ctx)
	line := progress.Start(log, "compiling the demo")
	group.Go(func() error {
		_, err := binaries.Download(together, sentences{line}, binaries.Demo()...)
		if missing, missingErr := binaries.Missing(binaries.Demo()...); missingErr == nil && len(missing) > 0 {
			after.Store(int64(controlPlaneWork))
		}
		return err
	})
	group.Go(func() error {
		return compileDemo(together, line, func() gobuild.Work { return gobuild.Work(after.Load()) })
	})
	err = group.Wait()
	line.Stop()
	if err != nil {
		return err
	}
	paths, err := binaries.Paths(ctx, log, binaries.Demo()...)
	if err != nil {
		return err
	}
	kubernetes, err := version(ctx, paths[binaries.KubeAPIServer])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(log, kubernetes)
	return err
}

// compileDemo writes bin/demo, and compiles what the operator imports: the demo itself builds the operator from that. Another
// process may run the file, so it is replaced.
func compileDemo(ctx context.Context, line *progress.Line, after func() gobuild.Work) error {
	operator, err := build.ImportDir("cmd", 0)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("bin", "demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	packages := append([]string{"./hack/demo"}, operator.Imports...)
	if err := (gobuild.Build{Flags: []string{"-ldflags=-w"}, Packages: packages, Output: dir + "/", After: after}).Run(ctx, line); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "demo"), "bin/demo")
}

// announce says how long it takes the first time, before anything is known but the speed of this machine.
func announce(log io.Writer, missing []binaries.Program) {
	if len(missing) == 0 {
		return
	}
	least := progress.Roughly(gobuild.Machine.Estimate(demoWork))
	most := progress.Roughly(gobuild.Machine.Estimate(demoWork + controlPlaneWork))
	_, _ = fmt.Fprintf(log, `The first time, the demo is compiled. On this machine, that takes about %s, or about
%s if Kubernetes cannot be downloaded and is compiled too. Later, the demo starts at
once. Press Ctrl-C to stop; the same command then continues.
`, least, most)
}

// sentences says on a line what is written to it, except how far a download is.
type sentences struct{ line *progress.Line }

func (s sentences) Write(text []byte) (int, error) {
	if said := strings.TrimSuffix(string(text), "\n"); !strings.HasSuffix(said, " …") {
		s.line.Say("%s", said)
	}
	return len(text), nil
}
