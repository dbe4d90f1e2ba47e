// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble runs tests in bubbles of testing/synctest, in which time passes when everybody waits.
package bubble

import (
	"testing"
	"testing/synctest"

	"github.com/onsi/gomega"
)

// Test runs a test in a bubble, in parallel with others.
func Test(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// Run is Test with a Gomega.
func Run(t *testing.T, test func(t *testing.T, g gomega.Gomega)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, gomega.NewWithT(t)) })
}

// Each runs a test of each row of a table in a bubble of its own, in parallel with others, under the name of the row.
func Each[R any](t *testing.T, rows map[string]R, test func(t *testing.T, g gomega.Gomega, row R)) {
	t.Helper()
	t.Parallel()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, g gomega.Gomega) { test(t, g, row) })
		})
	}
}
