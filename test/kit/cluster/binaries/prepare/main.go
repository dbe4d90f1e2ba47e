// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command prepare makes everything ready that takes minutes the first time, and
// shows for how long. Without an argument, it puts every program that the tests
// run into the cache folder: the control plane, kubectl and Redis; "paths" prints
// where they are. "demo ARGUMENTS…" does so for the programs of the demo, compiles
// the demo to bin/demo, and runs it. "compile NAME ARGUMENTS…" compiles packages
// with the arguments of go build. NAME is what the progress line calls them.
//
// Environment variables: K8S is the minor version of Kubernetes, PARTS=compile
// downloads no program, and PARTS_MIRROR is where to download from instead of
// the publishers. KUBEBUILDER_ASSETS is a folder with programs of a control
// plane to use instead, REDIS_SERVER the path of a redis-server, or valkey, and
// SCALEDJOB_CACHE a cache folder other than scaledjob-operator in the user's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/redistest/program"
)

// interrupted is the exit code that shells use after Ctrl-C.
const interrupted = 130

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Stdout, os.Args[1:])
	wasInterrupted := ctx.Err() != nil
	stop()
	switch {
	case wasInterrupted:
		_, _ = fmt.Fprintln(os.Stderr, "Interrupted. What was compiled is kept: the same command continues there.")
		os.Exit(interrupted)
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log io.Writer, args []string) error {
	switch {
	case len(args) == 0:
		return prepareTests(ctx, log, false)
	case len(args) == 1 && args[0] == "paths":
		return prepareTests(ctx, log, true)
	case args[0] == "demo":
		return runDemo(ctx, log, args[1:])
	case len(args) > 2 && args[0] == "compile":
		line := progress.Start(log, "compiling "+args[1])
		defer line.Stop()
		return gobuild.Build{Packages: args[2:]}.Run(ctx, line)
	default:
		return errors.New("usage: prepare, or prepare paths, or prepare demo ARGUMENTS…, or prepare compile NAME ARGUMENTS…")
	}
}

// prepareTests writes to log which versions run, or the path of each program.
func prepareTests(ctx context.Context, log io.Writer, listPaths bool) error {
	programs := binaries.ControlPlane()
	paths, err := binaries.Paths(ctx, log, programs...)
	if err != nil {
		return err
	}
	redis, err := program.Path(ctx, log)
	if err != nil {
		return err
	}
	if listPaths {
		_, err := fmt.Fprintln(log, strings.Join(append(slices.Sorted(maps.Values(paths)), redis), "\n"))
		return err
	}
	versions, err := binaries.Versions(ctx, paths)
	if err != nil {
		return err
	}
	server, err := program.Version(ctx, redis)
	if err != nil {
		return fmt.Errorf("%w%s", err, toolcache.Remedy(redis))
	}
	_, err = fmt.Fprintf(log, "%s, %s\n", versions[binaries.KubeAPIServer], server)
	return err
}
