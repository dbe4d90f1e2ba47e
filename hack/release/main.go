// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes everything that a release of the operator consists of, and writes it to dist/: container
// images for two platforms, manifests, the Helm chart, lists of the modules in use, and checksums. It needs neither
// Docker nor a registry. docs/contributing/releasing.md explains more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(start())
}

// start runs a command until a signal ends it, and returns the status with which to exit.
func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	_, _ = fmt.Fprintln(os.Stderr, "release:", err)
	return 1
}

// run carries out one command.
func run(ctx context.Context, args []string, out, errs io.Writer) error {
	options, err := parseOptions(args, errs)
	if err != nil {
		return err
	}
	release, err := newRelease(ctx, options.source, options, out)
	if err != nil {
		return err
	}
	switch options.command {
	case "rootfs":
		return release.writeRootFS(ctx, options.folder)
	case "image":
		return release.dockerBuild(ctx, errs)
	case "manifest":
		return release.printManifest(ctx)
	case "archive":
		return release.makeArchive(ctx)
	case "push":
		return release.makeAndPush(ctx)
	default:
		return release.make(ctx)
	}
}
