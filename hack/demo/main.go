// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the operator at work: it starts a real control plane, a
// real Redis and the operator, pushes messages to a list, and shows how soon
// how many Jobs appear. It fails if a Job too many or too few was created, and
// leaves nothing behind. Run it at the root of the repository.
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
)

const usage = `usage: go run ./hack/demo [-keep]

Starts a real Kubernetes control plane, a real Redis and the operator on this
machine, pushes messages to a Redis list, and shows how soon how many Jobs
appear. Needs Go and git, neither root nor Docker. The first run builds the
control plane, which takes minutes; after that it takes half a minute.

`

// The exit codes besides 0.
const (
	failed      = 1
	misused     = 2
	interrupted = 130 // what shells give a command ended by Ctrl-C
)

var errInterrupted = errors.New("interrupted")

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
	keep, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return misused
	}
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer restore()
	context.AfterFunc(ctx, restore) // a second Ctrl-C ends the program at once

	logPath, err := demonstrate(ctx, &screen{out: stdout}, keep)
	switch {
	case errors.Is(err, errInterrupted):
		return interrupted
	case err != nil:
		report(stderr, err, logPath)
		return failed
	}
	return 0
}

// demonstrate shows the demo from the first word to the last and stops all that
// it has started, ctx having ended or not. After a failure the log of the
// operator is left at logPath.
func demonstrate(ctx context.Context, screen *screen, keep bool) (logPath string, err error) {
	announce(screen)
	env := &environment{}
	err = env.start(ctx, screen)
	if err == nil {
		err = show(ctx, screen, env, keep)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = errInterrupted
	default:
		logPath = env.saveLog()
	}
	screen.line("")
	screen.piece("Stopping everything …")
	if stopErr := env.stop(ctx); stopErr != nil {
		return logPath, errors.Join(err, fmt.Errorf("stopping: %w", stopErr))
	}
	screen.piece(" done.")
	screen.end()
	return logPath, err
}

func parseFlags(args []string, out io.Writer) (keep bool, err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&keep, "keep", false, "leave everything running until Ctrl-C, to look around with kubectl and redis-cli")
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		_, _ = fmt.Fprintln(out, err)
	}
	return keep, err
}

func report(out io.Writer, err error, logFile string) {
	_, _ = fmt.Fprintln(out, "\nThe demo failed:", err)
	if logFile != "" {
		_, _ = fmt.Fprintln(out, "The log of the operator:", logFile)
	}
}
