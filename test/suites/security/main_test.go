// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package security tests that nobody sees the passwords and keys of Redis servers, that credentials can change while
// they are in use, and that tenants who share an operator do not disturb each other: with the real binary, as the
// ServiceAccount that is shipped, a real API server and real Redis servers. At the end, everything that the operator
// has said to anybody is searched for the secrets that the tests have given it.
package security

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// timeout is how long a fact is waited for. Credentials that were refused are
	// tried every half minute, forbidden channels every minute.
	timeout = 2 * time.Minute
	// pollInterval is how often it is looked for.
	pollInterval = 50 * time.Millisecond
	// parallel is how many tests run at the same time. They wait more than they work.
	parallel = 32

	stopTimeout = time.Minute
)

var (
	// shared is the control plane of the operator that most tests share.
	shared *controlPlane
	// neighbours is a server that nobody breaks.
	neighbours *redistest.Server
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) (err error) {
	if neighbours, err = redistest.Start(ctx, redistest.Options{Log: os.Stderr}); err != nil {
		return err
	}
	if shared, err = newControlPlane(ctx); err != nil {
		return err
	}
	return shared.run(ctx)
}

// stop ends what runs. That the operator ends well, and that it has kept all secrets to itself, are tests as well.
func stop(ctx context.Context) error {
	return errors.Join(shared.stop(ctx), neighbours.Stop())
}
