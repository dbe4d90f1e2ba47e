// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/node"
)

// machine is the cluster with a real node that all tests share, and clients are an administrator's.
var (
	machine *node.Node
	clients kubernetes.Interface
)

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
	if clients, err = kubernetes.NewForConfig(machine.Config()); err != nil {
		return err
	}
	for _, folder := range []string{root("dist"), previous("")} {
		archives, err := filepath.Glob(filepath.Join(folder, "*-linux-"+runtime.GOARCH+".tar"))
		if err != nil || len(archives) != 1 {
			return fmt.Errorf("%s holds %d archives of the operator for this machine, not one: %w", folder, len(archives), err)
		}
		if err := machine.ImportImage(ctx, archives[0]); err != nil {
			return err
		}
	}
	return nil
}

func stop(context.Context) error {
	if machine == nil {
		return nil
	}
	return machine.Stop()
}
