// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a real Kubernetes control plane as child processes:
// etcd and kube-apiserver, and on demand kube-controller-manager, which makes
// Jobs work. On demand it simulates a Node for their Pods. It needs neither root
// nor Docker. One cluster serves all tests of a package:
//
//	var control *cluster.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m, 0, start, stop)) }
//
//	func start(ctx context.Context) (err error) {
//		control, err = cluster.Start(ctx, cluster.Options{ControllerManager: true, FakeNode: true})
//		return err
//	}
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	host = "127.0.0.1"
	// startTimeout bounds the start once the programs are there. It takes a few seconds on an idle machine.
	startTimeout = 2 * time.Minute
)

// Options say what runs besides etcd and the API server.
type Options struct {
	// ControllerManager runs the controllers of Jobs, garbage collection, TTL, namespaces, ServiceAccounts, quotas and
	// aggregated roles. Without it no Pod needs a ServiceAccount.
	ControllerManager bool
	// FakeNode simulates a Node that every Pod is placed on, see PodReadyAfter.
	FakeNode bool
	// NodeAddress is the address of a real node that is going to join, see package node. The API server listens on it, so
	// that Pods reach it, and the scheduler and every controller run. Empty means no such node.
	NodeAddress string
	// CRDs are files or folders of manifests for InstallCRDs. The garbage collector and quotas know these kinds from
	// the start, but one installed later only after up to 30 s.
	CRDs []string
	// Log gets progress lines while programs are built. Nil means none.
	Log io.Writer
}

// Cluster is a running control plane. It is safe for concurrent use.
type Cluster struct {
	opts    Options
	paths   map[string]string
	sandbox *sandbox.Sandbox
	access  *access
	etcdURL string
	client  client.WithWatch

	stopFakeNode func() // nil if none was started

	mu        sync.Mutex
	apiServer *sandbox.Process
}

// Start finds or builds the programs, starts them and returns when they are
// ready. The context bounds the start, not the life of the cluster.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	paths, err := findPrograms(ctx, opts)
	if err != nil {
		return nil, err
	}
	box, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{opts: opts, paths: paths, sandbox: box}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := cluster.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a control plane: %w", err), cluster.Stop())
	}
	return cluster, nil
}

func findPrograms(ctx context.Context, opts Options) (map[string]string, error) {
	needed := []string{etcd, apiServer}
	if opts.ControllerManager {
		needed = append(needed, controllerManager)
	}
	if opts.NodeAddress != "" {
		needed = append(needed, scheduler)
	}
	return programs.Paths(ctx, opts.Log, needed...)
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.access, err = newAccess(c.sandbox, cmp.Or(c.opts.NodeAddress, host)); err != nil {
		return err
	}
	if c.client, err = newClient(c.Config()); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := c.InstallCRDs(ctx, c.opts.CRDs...); err != nil {
		return err
	}
	if c.opts.ControllerManager {
		if err := c.startControllerManager(ctx); err != nil {
			return err
		}
	}
	if c.opts.NodeAddress != "" {
		if err := c.startScheduler(); err != nil {
			return err
		}
	}
	if c.opts.FakeNode {
		return c.startFakeNode(ctx)
	}
	return nil
}

// newClient makes a client that knows the kinds this package handles.
func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Stop ends all processes and removes their files. Stopping again does nothing, and neither does stopping what has not
// started, which is nil.
func (c *Cluster) Stop() error {
	if c == nil {
		return nil
	}
	if c.stopFakeNode != nil {
		c.stopFakeNode()
	}
	return c.sandbox.Close()
}

// Config returns a client configuration for a cluster administrator, without a
// client-side rate limit. Each call returns a new one.
func (c *Cluster) Config() *rest.Config { return c.access.config() }

// Kubeconfig returns the path of a kubeconfig file for the same administrator.
func (c *Cluster) Kubeconfig() string { return c.access.kubeconfig }
