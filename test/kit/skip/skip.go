// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package skip says which tests only make test-all runs.
package skip

import "testing"

// UnderShort skips a test with -short, as make test runs. The reason says why make test can do without it.
func UnderShort(tb testing.TB, reason string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("make test-all: " + reason)
	}
}
