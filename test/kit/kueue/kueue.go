// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue runs Kueue as a child process against a control plane of package cluster: with the manifests, the roles
// and the configuration that it ships, and with its webhooks. Only Jobs are left to it, and it has no leader election,
// no metrics and no server for the order of its queues.
//
//	program, err := kueue.Build(ctx, log)
//	running, err := program.Install(ctx, control)
//	err = running.Start(ctx)
//	…
//	err = running.Stop(ctx)
//
// The API server finds the webhooks by their Service, which is another name for this machine. So Kueue makes the
// certificates itself, and the test takes the place of the kubelet, which would have mounted them.
package kueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	host         = "127.0.0.1"
	startTimeout = 2 * time.Minute

	// program is Kueue, and manifestsFile the file next to it with what it ships.
	program       = "kueue"
	manifestsFile = "manifests.yaml"

	// Flavor is the ResourceFlavor that exists once Kueue has started. It has nothing to do with any node.
	Flavor = "any"
	flavor = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: ` + Flavor + `}
`
)

// Program is Kueue and its manifests, as files.
type Program struct {
	folder string
}

// Build returns the program, see package programs.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	path, err := programs.Path(ctx, log, program)
	return Program{folder: filepath.Dir(path)}, err
}

// Kueue is Kueue in one control plane.
type Kueue struct {
	path    string
	control *cluster.Cluster
	secrets kubernetes.Interface
	sandbox *sandbox.Sandbox
	probes  string
	process *sandbox.Process
}

// Install applies the manifests, other than the Deployment. From then on, the API server creates no Job until Start.
func (p Program) Install(ctx context.Context, control *cluster.Cluster) (*Kueue, error) {
	clients, err := kubernetes.NewForConfig(control.Config())
	if err != nil {
		return nil, err
	}
	box, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	k := &Kueue{path: filepath.Join(p.folder, program), control: control, secrets: clients, sandbox: box}
	if err := k.install(ctx, filepath.Join(p.folder, manifestsFile)); err != nil {
		return nil, errors.Join(fmt.Errorf("installing Kueue: %w", err), box.Close())
	}
	return k, nil
}

func (k *Kueue) install(ctx context.Context, path string) (err error) {
	if k.probes, err = k.sandbox.Address(); err != nil {
		return err
	}
	port, err := k.sandbox.Port()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	adapted, err := local{port: int64(port), probes: k.probes, certificates: k.sandbox.Dir()}.adapt(content)
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.file(configuration), adapted.configuration, 0o600); err != nil {
		return err
	}
	if err := k.control.Apply(ctx, &adapted.objects); err != nil {
		return err
	}
	return k.control.WriteServiceAccountKubeconfig(ctx, namespace, account, k.file("kubeconfig"))
}

// Start returns when the API server has asked the webhooks. After Kill, it starts Kueue again. The context bounds the
// start, not the life of Kueue.
func (k *Kueue) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := k.start(ctx); err != nil {
		return fmt.Errorf("starting Kueue: %w", err)
	}
	return nil
}

func (k *Kueue) start(ctx context.Context) (err error) {
	k.process, err = k.sandbox.Start(program, k.path,
		"--config="+k.file(configuration), "--kubeconfig="+k.file("kubeconfig"), "--zap-log-level=2")
	if err != nil {
		return err
	}
	for _, ready := range []func(context.Context) error{k.mountCertificates, k.ready, k.makeFlavor} {
		if err := k.process.WaitReady(ctx, ready); err != nil {
			return err
		}
	}
	return nil
}

// mountCertificates writes the Secret with the certificates to files, as a kubelet does. It fails until Kueue has made
// them.
func (k *Kueue) mountCertificates(ctx context.Context) error {
	if _, err := os.Stat(k.file(corev1.TLSCertKey)); err == nil {
		return nil // since the first start
	}
	secret, err := k.secrets.CoreV1().Secrets(namespace).Get(ctx, certificates, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// Kueue looks for the certificate, so the key comes first.
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		content := secret.Data[name]
		if len(content) == 0 {
			return fmt.Errorf("secret %s has no %s", certificates, name)
		}
		if err := os.WriteFile(k.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kueue) ready(ctx context.Context) error {
	_, err := operator.Get(ctx, "http://"+k.probes+"/readyz")
	return err
}

// makeFlavor fails until the API server knows the certificates of the webhooks.
func (k *Kueue) makeFlavor(ctx context.Context) error {
	return k.control.Apply(ctx, strings.NewReader(flavor))
}

func (k *Kueue) file(name string) string { return filepath.Join(k.sandbox.Dir(), name) }

// Kill ends Kueue with SIGKILL. Start starts it again.
func (k *Kueue) Kill() error { return k.process.Kill() }

// Pause has Kueue do nothing, and answer nothing, until Resume.
func (k *Kueue) Pause() error { return k.process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (k *Kueue) Resume() error { return k.process.Signal(syscall.SIGCONT) }

// Logs returns what Kueue has logged until now.
func (k *Kueue) Logs() string { return k.process.Logs() }

// Stop asks Kueue to end, and waits for that, unless it is nil. Its objects stay.
func (k *Kueue) Stop(ctx context.Context) error {
	if k == nil {
		return nil
	}
	var err error
	if k.process != nil {
		_ = k.Resume() // In case that a test has failed after Pause. One that has ended is not resumed.
		err = k.process.Terminate(ctx)
	}
	return errors.Join(err, k.sandbox.Close())
}
