// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-scaledjob is a plugin of kubectl: with the program on the PATH, kubectl scaledjob runs it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"miracle.dev/scaledjob-operator/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // This is main.
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	// The libraries have one logger for the whole process, and would repeat what the sentence about an error says.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	code := cli.Run(ctx, cli.Options{
		Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Version: version,
	})
	stop()
	os.Exit(code)
}
