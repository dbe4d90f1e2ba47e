// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-scaledjob is a plugin of kubectl: with the program on the PATH, kubectl scaledjob runs it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"miracle.dev/scaledjob-operator/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // This is main.
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, cli.Options{
		Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Version: version,
	})
	stop()
	os.Exit(code)
}
