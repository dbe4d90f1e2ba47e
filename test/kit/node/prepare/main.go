// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command prepare puts every program and image of a real node into the cache folder. The first run takes minutes. With
// the argument check it only reports, in one line, whether a node can run on this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"miracle.dev/scaledjob-operator/test/kit/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "check" {
		return node.Possible()
	}
	return node.Prepare(ctx, os.Stdout)
}
