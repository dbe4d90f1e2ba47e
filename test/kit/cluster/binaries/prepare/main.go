// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command prepare puts every program the tests run into the cache folder: the
// control plane, kubectl and Redis, and with the argument node those of a real
// node too. The first run takes minutes, which are better spent here than
// inside go test, where output is hidden and time-outs run.
//
// Environment variables: KUBEBUILDER_ASSETS is a folder with programs of a
// control plane to use instead, REDIS_SERVER the path of a redis-server, and
// SCALEDJOB_CACHE a cache folder other than scaledjob-operator in the user's.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := prepare(ctx, os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// prepare writes the path of each program to log.
func prepare(ctx context.Context, log io.Writer) error {
	for _, program := range binaries.ControlPlane() {
		path, err := binaries.Path(ctx, log, program)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(log, path); err != nil {
			return err
		}
	}
	path, err := redistest.Binary(ctx, log)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(log, path)
	return err
}
