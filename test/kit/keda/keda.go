// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package keda runs the operator of KEDA as a child process against a control plane of package cluster, without its
// webhooks, its metrics server and its leader election:
//
//	program, err := keda.Build(ctx, log)
//	if err := program.Install(ctx, control); err != nil { … }
//	running, err := program.Start(ctx, keda.Options{Cluster: control, Namespace: "example", Settings: keda.Defaults()})
//	…
//	err = running.Stop(ctx)
package keda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	// namespace is where KEDA itself is.
	namespace    = "keda"
	account      = "keda-operator"
	host         = "127.0.0.1"
	startTimeout = time.Minute

	// program is KEDA's operator, and crds the folder next to it with its CustomResourceDefinitions.
	program = "keda-operator"
	crds    = "crds"
)

// Program is KEDA's operator and its CustomResourceDefinitions, as files.
type Program struct {
	folder string
}

// Build returns the program, see package programs.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	path, err := programs.Path(ctx, log, program)
	return Program{folder: filepath.Dir(path)}, err
}

// CRDs returns the folder with KEDA's CustomResourceDefinitions, for tests that need its objects and not its operator.
func CRDs(ctx context.Context) (string, error) {
	source, err := programs.Source(ctx, "keda", "github.com/kedacore/keda/v2")
	return filepath.Join(source, "config", "crd", "bases"), err
}

// Settings are those that decide how much KEDA does at a time.
type Settings struct {
	// QPS and Burst limit the requests to the API server, for each kind of object. 0 means KEDA's own limits, which are 20
	// and 30.
	QPS, Burst int
	// Reconciles are how many ScaledJobs are reconciled at a time. 0 means KEDA's own number, which is 1.
	Reconciles int
}

// Defaults are what KEDA has unless it is told otherwise.
func Defaults() Settings { return Settings{} }

// Best are the settings with which KEDA is fastest here.
func Best() Settings {
	const qps, burst, reconciles = 500, 1000, 20
	return Settings{QPS: qps, Burst: burst, Reconciles: reconciles}
}

// flags are those of the operator.
func (s Settings) flags() (flags []string) {
	if s.QPS > 0 {
		flags = append(flags, "--kube-api-qps="+strconv.Itoa(s.QPS))
	}
	if s.Burst > 0 {
		flags = append(flags, "--kube-api-burst="+strconv.Itoa(s.Burst))
	}
	return flags
}

// environment has the variables of the operator.
func (s Settings) environment() []string {
	if s.Reconciles == 0 {
		return nil
	}
	return []string{"KEDA_SCALEDJOB_CTRL_MAX_RECONCILES=" + strconv.Itoa(s.Reconciles)}
}

// objects are what KEDA needs besides its CustomResourceDefinitions. Which rights it has costs it nothing.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + namespace + `}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ` + account + `, namespace: ` + namespace + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ` + account + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: ` + account + `, namespace: ` + namespace + `}]
`

// Install makes the API server know KEDA's objects.
func (p Program) Install(ctx context.Context, control *cluster.Cluster) error {
	if err := control.InstallCRDs(ctx, filepath.Join(p.folder, crds)); err != nil {
		return fmt.Errorf("installing KEDA: %w", err)
	}
	return control.Apply(ctx, strings.NewReader(objects))
}

// Options are the choices of Start.
type Options struct {
	Cluster *cluster.Cluster
	// Namespace is the only one that KEDA watches. Empty means all.
	Namespace string
	Settings  Settings
	// Args are further flags.
	Args []string
}

// KEDA is a running operator of KEDA.
type KEDA struct {
	*sandbox.Process

	sandbox *sandbox.Sandbox
}

// Start returns when the operator is ready. The context bounds the start, not the life of the operator.
func (p Program) Start(ctx context.Context, opts Options) (*KEDA, error) {
	box, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k := &KEDA{sandbox: box}
	if err := k.start(ctx, filepath.Join(p.folder, program), opts); err != nil {
		return nil, errors.Join(fmt.Errorf("starting KEDA: %w", err), box.Close())
	}
	return k, nil
}

func (k *KEDA) start(ctx context.Context, path string, opts Options) error {
	// A ServiceAccount has the priority at the API server that any operator has.
	err := opts.Cluster.WriteServiceAccountKubeconfig(ctx, namespace, account, k.file("kubeconfig"))
	if err := errors.Join(err, k.writeCertificates()); err != nil {
		return err
	}
	probes, err := k.sandbox.Address()
	if err != nil {
		return err
	}
	service, err := k.sandbox.Address()
	if err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + k.file("kubeconfig"), "--cert-dir=" + k.sandbox.Dir(), "--ca-dir=" + k.sandbox.Dir(),
		"--leader-elect=false", "--enable-cert-rotation=false",
		"--metrics-bind-address=" + net.JoinHostPort(host, "0"), "--health-probe-bind-address=" + probes,
		"--metrics-service-bind-address=" + service,
	}, slices.Concat(opts.Settings.flags(), opts.Args)...)
	environment := append([]string{
		"WATCH_NAMESPACE=" + opts.Namespace, "KEDA_CLUSTER_OBJECT_NAMESPACE=" + namespace,
		"POD_NAMESPACE=" + namespace, "POD_NAME=" + account, "OPERATOR_NAME=" + account,
	}, opts.Settings.environment()...)
	if k.Process, err = k.sandbox.StartWith(environment, program, path, args...); err != nil {
		return err
	}
	return k.WaitServing(ctx, http.DefaultClient, "http://"+probes+"/readyz")
}

func (k *KEDA) file(name string) string { return filepath.Join(k.sandbox.Dir(), name) }

// writeCertificates writes those that KEDA would make for its service itself. Nobody connects to that here.
func (k *KEDA) writeCertificates() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey(account+"."+namespace+".svc", nil, nil)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": certificate, "ca.key": key} {
		if err := os.WriteFile(k.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Stop asks KEDA to end, and waits for that, unless it is nil.
func (k *KEDA) Stop(ctx context.Context) error {
	if k == nil {
		return nil
	}
	return errors.Join(k.Terminate(ctx), k.sandbox.Close())
}
