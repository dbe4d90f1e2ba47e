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
	"syscall"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/operator/binary"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// How much there is to compile the first time, for the estimate before go list has reported what is stale.
const (
	demoWork         gobuild.Work = 560_000_000
	controlPlaneWork gobuild.Work = 930_000_000 // without what the demo imports
	operatorLink     gobuild.Work = 15_000_000
)

const demoPath = "bin/demo"

// runDemo makes everything ready that the demo needs, and becomes the demo. A mistake in its arguments is found first.
func runDemo(ctx context.Context, log io.Writer, args []string) error {
	opts, err := script.Parse(args)
	if err != nil {
		return err
	}
	if opts.List {
		_, err := io.WriteString(log, script.Listing())
		return err
	}
	if err := prepareDemo(ctx, log); err != nil {
		return err
	}
	return syscall.Exec(demoPath, append([]string{demoPath}, args...), os.Environ())
}

// prepareDemo downloads the control plane while it compiles the demo, and compiles what could not be downloaded.
func prepareDemo(ctx context.Context, log io.Writer) error {
	missing, err := binaries.Missing(binaries.Demo()...)
	if err != nil {
		return err
	}
	announce(log, len(missing) > 0)
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
	_, err = binaries.Versions(ctx, paths)
	return err
}

// compileDemo compiles the demo and the operator, which the demo then finds up to date.
func compileDemo(ctx context.Context, line *progress.Line, after func() gobuild.Work) error {
	operator, err := build.ImportDir("cmd", 0)
	if err != nil {
		return err
	}
	demo := gobuild.Build{
		Flags: []string{"-buildvcs=false", "-ldflags=-w"}, Packages: append([]string{"./hack/demo"}, operator.Imports...),
		Output: filepath.Dir(demoPath) + "/", After: func() gobuild.Work { return operatorLink + after() },
	}
	if err := demo.Run(ctx, line); err != nil {
		return err
	}
	line.Left(gobuild.Machine.Estimate(operatorLink + after()))
	line.Status("linking the operator")
	_, err = binary.Path(ctx, nil)
	line.Left(0)
	line.Status("waiting for the control plane")
	return err
}

// announce says how long compiling takes the first time, before anything is known but the speed of this machine.
func announce(log io.Writer, withControlPlane bool) {
	if _, err := os.Stat(demoPath); err == nil && !withControlPlane {
		return
	}
	takes := progress.Roughly(gobuild.Machine.Estimate(demoWork))
	if withControlPlane {
		takes += ", or about\n" + progress.Roughly(gobuild.Machine.Estimate(demoWork+controlPlaneWork)) +
			" if Kubernetes cannot be downloaded and is compiled too"
	}
	_, _ = fmt.Fprintf(log, "On this machine, compiling with an empty cache takes about %s.\n", takes)
}

// sentences says on a line what is written to it, except how far a download is.
type sentences struct{ line *progress.Line }

func (s sentences) Write(text []byte) (int, error) {
	if said := strings.TrimSuffix(string(text), "\n"); !strings.HasSuffix(said, " …") {
		s.line.Say("%s", said)
	}
	return len(text), nil
}
