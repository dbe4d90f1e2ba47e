// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble runs tests in bubbles of testing/synctest, in which time passes when everybody waits.
package bubble

import (
	"testing"
	"testing/synctest"

	"github.com/onsi/gomega"
)

// Run runs a test in a bubble, in parallel with others.
func Run(t *testing.T, test func(t *testing.T, g gomega.Gomega)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		test(t, gomega.NewWithT(t))
	})
}
