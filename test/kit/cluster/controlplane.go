// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The programs of a control plane.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// controllers are those kube-controller-manager runs.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"ttl-after-finished-controller",
}

// environment has the garbage collectors of a control plane run less often in tests, in which many control planes with
// small heaps share few processors, and within bounds. Benchmarks have them run as users do.
func environment() []string {
	if testing.Testing() {
		return []string{"GOGC=1000", "GOMEMLIMIT=700MiB"}
	}
	return nil
}

const (
	// serviceRange holds the addresses of Services, and serviceAddress the first of them: the API server as Pods see it.
	serviceRange   = "10.0.0.0/24"
	serviceAddress = "10.0.0.1"
)

func (c *Cluster) startEtcd(ctx context.Context) error {
	clients, err := c.localURL()
	if err != nil {
		return err
	}
	peers, err := c.localURL()
	if err != nil {
		return err
	}
	process, err := c.sandbox.StartWith(environment(), etcd, c.paths[etcd],
		"--data-dir="+filepath.Join(c.sandbox.Dir(), "etcd"),
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers,
		"--unsafe-no-fsync", // the data need not survive a crash of the machine
		// A lone member need not wait for the votes of others.
		"--heartbeat-interval=10", "--election-timeout=100",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn")
	if err != nil {
		return err
	}
	c.etcdURL = clients
	return process.WaitServing(ctx, http.DefaultClient, clients+"/health")
}

func (c *Cluster) localURL() (string, error) {
	address, err := c.sandbox.Address()
	return "http://" + address, err
}

// startAPIServer starts a kube-apiserver on the port of the cluster. It exits if etcd does not answer yet.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	process, err := c.sandbox.StartWith(environment(), apiServer, c.paths[apiServer], c.apiServerArguments()...)
	if err != nil {
		return err
	}
	c.apiServer = process
	web, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return err
	}
	defer web.CloseIdleConnections()
	return process.WaitServing(ctx, web, c.access.url()+"/readyz")
}

func (c *Cluster) apiServerArguments() []string {
	arguments := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=" + c.access.host,
		"--advertise-address=" + c.access.host,
		"--secure-port=" + strconv.Itoa(c.access.port),
		"--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + c.access.certificateFile,
		"--tls-private-key-file=" + c.access.keyFile,
		"--token-auth-file=" + c.access.tokenFile,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.access.accountKeyFile,
		"--service-account-signing-key-file=" + c.access.accountKeyFile,
		"--allow-privileged",
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
	if c.opts.NodeAddress == "" {
		arguments = append(arguments, "--endpoint-reconciler-type=none") // the others refuse a loopback address
	}
	if c.opts.FakeNode {
		arguments = append(arguments, policyArguments...)
	}
	if !c.opts.ControllerManager {
		arguments = append(arguments, "--disable-admission-plugins=ServiceAccount")
	}
	return arguments
}

// RestartAPIServer kills the API server and starts it again on the same port, with the same data. The others run on.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.apiServer.Kill(); err != nil {
		return err
	}
	return c.startAPIServer(ctx)
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	run := strings.Join(controllers, ",")
	if c.opts.NodeAddress != "" {
		run = "*"
	}
	process, err := c.sandbox.StartWith(environment(), controllerManager, c.paths[controllerManager],
		"--kubeconfig="+c.Kubeconfig(),
		"--controllers="+run,
		"--root-ca-file="+c.access.certificateFile,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--concurrent-job-syncs=20")
	if err != nil {
		return err
	}
	return process.WaitReady(ctx, func(ctx context.Context) error {
		return c.hasDefaultServiceAccount(ctx, metav1.NamespaceDefault)
	})
}

// startScheduler starts a kube-scheduler. Nobody waits for it: until it is ready, Pods are pending.
func (c *Cluster) startScheduler() error {
	_, err := c.sandbox.Start(scheduler, c.paths[scheduler],
		"--kubeconfig="+c.Kubeconfig(),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000")
	return err
}

// hasDefaultServiceAccount fails until the controller-manager has made what every Pod of the namespace needs.
func (c *Cluster) hasDefaultServiceAccount(ctx context.Context, namespace string) error {
	key := client.ObjectKey{Namespace: namespace, Name: "default"}
	return c.client.Get(ctx, key, &corev1.ServiceAccount{})
}
