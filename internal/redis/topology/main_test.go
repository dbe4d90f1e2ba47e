// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

func TestMain(m *testing.M) {
	connection.RedirectLogs(logr.Discard())
	goleak.VerifyTestMain(m)
}
