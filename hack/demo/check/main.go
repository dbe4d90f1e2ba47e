// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command check refuses a mistake in the arguments of the demo, and prints what these ask for instead of a scene. It is
// compiled within a second, and the demo only after that.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"miracle.dev/scaledjob-operator/hack/demo/script"
)

func main() {
	opts, err := script.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Print(script.Usage, script.Listing())
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case opts.List:
		_, _ = fmt.Print(script.Listing())
	}
}
