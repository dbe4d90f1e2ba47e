// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package node adds a real node to the control plane of package cluster: containerd, kubelet, kube-proxy and CoreDNS.
// It needs root, Linux with cgroups, and Debian's packages or the files that were fetched before, but no Docker and no
// registry. Start works only in the namespaces that Isolated makes.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

const (
	// Name is the name of the node, and address its address.
	Name    = "node"
	address = "172.31.255.1"

	// startTimeout bounds the start of the node. It takes about ten seconds on an idle machine.
	startTimeout = 3 * time.Minute
)

// Node is a running cluster with one real node. It is safe for concurrent use.
type Node struct {
	// Cluster is the control plane.
	*cluster.Cluster

	paths   paths
	sandbox *sandbox.Sandbox
	client  client.Client
}

// Start starts a control plane and a node, and returns when the node is ready and the cluster's DNS answers. Log gets
// progress lines while programs are built, see Prepare. The context bounds the start, not the life of the node.
func Start(ctx context.Context, log io.Writer) (*Node, error) {
	if err := checkIsolated(); err != nil {
		return nil, err
	}
	found, err := prepare(ctx, log)
	if err != nil {
		return nil, err
	}
	box, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	node := &Node{paths: found, sandbox: box}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := node.start(ctx, log); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a node: %w", err), node.Stop(ctx))
	}
	return node, nil
}

func (n *Node) start(ctx context.Context, log io.Writer) error {
	images, err := packImages(ctx, n.sandbox.Dir(), n.paths)
	if err != nil {
		return err
	}
	if err := n.paths.use(); err != nil {
		return err
	}
	if err := setUpNetwork(ctx); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	if err := n.importImages(ctx, images); err != nil {
		return err
	}
	n.Cluster, err = cluster.Start(ctx, cluster.Options{ControllerManager: true, NodeAddress: address, Log: log})
	if err != nil {
		return err
	}
	if n.client, err = client.New(n.Config(), client.Options{}); err != nil {
		return err
	}
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	if err := n.startProxy(); err != nil {
		return err
	}
	return n.startDNS(ctx)
}

// Stop ends all containers and processes and removes their files.
func (n *Node) Stop(context.Context) error {
	err := n.Cluster.Stop()
	if killed := syscall.Kill(-1, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
		err = errors.Join(err, killed)
	}
	return errors.Join(err, unmountBelow(n.sandbox.Dir()), n.sandbox.Close())
}

// awaitReady waits until the node says that it is ready.
func (n *Node) awaitReady(ctx context.Context) error {
	var node corev1.Node
	if err := n.client.Get(ctx, client.ObjectKey{Name: Name}, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	return errors.New("the node has no condition Ready")
}

func (n *Node) file(name string) string { return filepath.Join(n.sandbox.Dir(), name) }
