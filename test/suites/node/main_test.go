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
	"github.com/onsi/gomega/format"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/node"
)

// realCluster is a cluster with one or more real nodes.
type realCluster interface {
	Kubeconfig() string
	ImportImage(ctx context.Context, archive string) error
	LimitMemoryToUsage(ctx context.Context, node, containerID string) error
	Stop(ctx context.Context) error
}

var (
	// shared is the cluster of all tests.
	shared  realCluster
	clients kubernetes.Interface
)

// nodeVariable is set by make e2e-node. If it is kind, the tests use kind and Docker.
const nodeVariable = "E2E_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeVariable) == "" {
		_, _ = fmt.Fprintln(os.Stderr, "the tests on a real node need a release and root: run make e2e-node")
		return
	}
	tests := func() int { return cluster.Run(m, 1, start, stop) }
	if onKind() {
		os.Exit(tests())
	}
	os.Exit(node.Isolated(tests))
}

func onKind() bool { return os.Getenv(nodeVariable) == "kind" }

func start(ctx context.Context) (err error) {
	gomega.SetDefaultEventuallyTimeout(3 * time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	// Of an error, Gomega shows the text and then all fields. The text is enough.
	format.RegisterCustomFormatter(func(value any) (string, bool) {
		_, isError := value.(error)
		return "", isError
	})
	if onKind() {
		shared, err = node.StartKind(ctx)
	} else {
		shared, err = node.Start(ctx, os.Stderr)
	}
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig())
	if err != nil {
		return err
	}
	if clients, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return importOperators(ctx)
}

// importOperators imports the images of this version and of the previous one.
func importOperators(ctx context.Context) error {
	for _, folder := range []string{root("dist"), previous("")} {
		archives, err := filepath.Glob(filepath.Join(folder, "*-linux-"+runtime.GOARCH+".tar"))
		if err != nil {
			return err
		}
		if len(archives) != 1 {
			return fmt.Errorf("%s holds %d archives for this machine, not one: run make e2e-node", folder, len(archives))
		}
		if err := shared.ImportImage(ctx, archives[0]); err != nil {
			return err
		}
	}
	return nil
}

func stop(ctx context.Context) error {
	if shared == nil {
		return nil
	}
	return shared.Stop(ctx)
}
