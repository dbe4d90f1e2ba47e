// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the operator at work: it starts a real control plane and
// the operator, has messages pushed to Redis, and shows how soon how many Jobs
// appear, scene by scene. Each scene checks what it has promised. The command
// leaves nothing behind. Run it at the root of the repository.
//
// Package scene decides what happens and environment lets it happen; board holds
// what its watches have seen, and view draws that.
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

	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// The exit codes besides 0.
const (
	failed      = 1
	misused     = 2
	interrupted = 130 // what shells give a command ended by Ctrl-C
)

func main() {
	silenceLibraries()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// silenceLibraries keeps client libraries from writing between our lines. What
// goes wrong comes back as an error.
func silenceLibraries() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	logging.Disable()
}

// run runs the command and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return misused
	case opts.list:
		_, _ = fmt.Fprint(stdout, listing())
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
