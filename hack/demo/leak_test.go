// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests in the root of the repository, as the demo is.
func TestMain(m *testing.M) {
	silenceLibraries()
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
