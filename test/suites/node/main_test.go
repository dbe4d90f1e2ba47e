// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/node"
)

// machine is the cluster with a real node that all tests share.
var machine *node.Node

func TestMain(m *testing.M) {
	os.Exit(node.Isolated(
		func() error { return node.Prepare(context.Background(), os.Stderr) },
		func() int { return cluster.Run(m, 1, start, stop) },
	))
}

func start(ctx context.Context) error {
	gomega.SetDefaultEventuallyTimeout(3 * time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	var err error
	if machine, err = node.Start(ctx, os.Stderr); err != nil {
		return err
	}
	return machine.ImportImage(ctx, "../../../dist/scaledjob-operator-v0.0.0-next-linux-amd64.tar")
}

func stop(context.Context) error {
	if machine == nil {
		return nil
	}
	return machine.Stop()
}
