// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows how the operator works: it starts a real control plane and the operator, pushes messages to Redis,
// and shows how quickly Jobs appear and how many. Each scene checks its own claims. The command removes everything that
// it has created. Run it in the root of the repository.
//
// Package script says which scenes there are, and package scene plays them. Package environment starts and stops the
// processes. Package board has the current state, and package view draws it.
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

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// The exit codes other than 0.
const (
	failed      = 1
	misused     = 2
	interrupted = 130 // the exit code that shells use after Ctrl-C
)

func main() {
	silenceLibraries()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// silenceLibraries switches off the logs of the client libraries, which would mix with the output of the demo. Their
// errors are returned anyway.
func silenceLibraries() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	logging.Disable()
}

// run runs the command and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	opts, err := script.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stdout, script.Usage+script.Listing())
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, err)
		return misused
	case opts.List:
		_, _ = fmt.Fprint(stdout, script.Listing())
		return 0
	}
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer restore()
	context.AfterFunc(ctx, restore) // a second Ctrl-C ends the program at once

	logPath, err := demonstrate(ctx, opts, stdout)
	switch {
	case errors.Is(err, view.ErrQuit):
		return 0
	case errors.Is(err, view.ErrInterrupted):
		return interrupted
	case err != nil:
		report(stderr, err, logPath)
		return failed
	}
	return 0
}

func report(out io.Writer, err error, logFile string) {
	_, _ = fmt.Fprintln(out, "\nThe demo failed:", err)
	if logFile != "" {
		_, _ = fmt.Fprintln(out, "The log of the operator:", logFile)
	}
}
