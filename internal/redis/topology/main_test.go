// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
