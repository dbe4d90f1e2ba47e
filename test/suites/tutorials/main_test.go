// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorials does what the tutorials say: it runs their workers on a real Redis server.
package tutorials

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
)

const (
	root         = "../../.."
	timeout      = time.Minute
	pollInterval = 20 * time.Millisecond
	// parallel is how many tests run at the same time. They mostly wait.
	parallel = 8
)

func TestMain(m *testing.M) {
	rediscli.Play()
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) error { return buildWorker(ctx) }

func stop(context.Context) error { return removeWorker() }
