// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// playSuites runs the long forms of the tests that have one, with their output to log.
func playSuites(ctx context.Context, log io.Writer, seed uint64) error {
	for _, suite := range [][]string{
		{"./test/suites/faults", "-args", "-long"},
		{"./test/suites/faults/race", "-args", "-pushes=10000", fmt.Sprintf("-seed=%d", seed)},
	} {
		_, _ = fmt.Fprintf(log, "the long form of %s …\n", suite[0])
		test := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-timeout=1h"}, suite...)...)
		// Interrupted, a test ends what it has started.
		test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
		test.Stdout, test.Stderr = log, log
		if err := test.Run(); err != nil {
			return fmt.Errorf("the long form of %s: %w", suite[0], err)
		}
	}
	return nil
}
