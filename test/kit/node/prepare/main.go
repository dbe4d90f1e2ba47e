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
	defer stop()
	do := func() error { return node.Prepare(ctx, os.Stdout) }
	if len(os.Args) > 1 && os.Args[1] == "check" {
		do = node.Possible
	}
	if err := do(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
