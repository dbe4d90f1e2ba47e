// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries finds the programs of a Kubernetes control plane, and
// kubectl. Each is downloaded once from where its project publishes it, or else
// compiled from the Go modules pinned below this folder. K8S selects the minor
// version of Kubernetes.
//
// It does not try setup-envtest: that has no kube-controller-manager. Whoever
// has run it points KUBEBUILDER_ASSETS at what it fetched.
package binaries

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// Program is a program this package finds.
type Program string

// The programs of a control plane, and the one that users talk to it with.
const (
	Etcd              Program = "etcd"
	KubeAPIServer     Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
	KWOK              Program = "kwok"
	Kubectl           Program = "kubectl"
)

// The programs that a real node needs besides.
const (
	Scheduler Program = "kube-scheduler"
	Kubelet   Program = "kubelet"
	Proxy     Program = "kube-proxy"
	CoreDNS   Program = "coredns"
)

// ControlPlane returns what all tests need.
func ControlPlane() []Program {
	return []Program{KubeAPIServer, ControllerManager, Etcd, KWOK, Kubectl}
}

// Demo returns what the demo needs of it.
func Demo() []Program {
	return []Program{KubeAPIServer, ControllerManager, Etcd, KWOK}
}

// Node returns what a real node needs besides.
func Node() []Program {
	return []Program{Scheduler, Kubelet, Proxy, CoreDNS}
}

// assetsVariable names the folder that controller-runtime's test environment
// takes its programs from.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Path returns the path of a program: in the folder KUBEBUILDER_ASSETS names if
// it is there, in the cache folder if it was made before, else downloaded or
// compiled now, with progress on log. It must be called from inside the source
// of this module, as the nested modules are found from there.
func Path(ctx context.Context, log io.Writer, program Program) (string, error) {
	if path, found := asset(program); found {
		return path, nil
	}
	source, dir, version, err := locate(program)
	if err != nil {
		return "", err
	}
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("%s-%s-%s-%s", program, version, runtime.GOOS, runtime.GOARCH),
		Activity: fmt.Sprintf("%s %s", program, version),
		Make: func(ctx context.Context, folder string, line *progress.Line) error {
			target := filepath.Join(folder, string(program))
			compile := func() error { return source.build(ctx, line, dir, version, target) }
			if offer, found := publishedFor(program, version, runtime.GOOS, runtime.GOARCH); found {
				return internet.provide(ctx, line, offer, target, compile)
			}
			return compile()
		},
	}
	made, err := tool.Dir(ctx, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(made, string(program)), nil
}

// locate returns where a program is built from: the folder of the nested module
// and the version.
func locate(program Program) (from source, dir, version string, err error) {
	from, found := sources[program]
	if !found {
		return source{}, "", "", fmt.Errorf("%q is no program of a control plane", program)
	}
	if dir, err = from.dir(); err != nil {
		return source{}, "", "", fmt.Errorf("finding the source of %s: %w", program, err)
	}
	if version, err = from.version(dir); err != nil {
		return source{}, "", "", fmt.Errorf("finding the version of %s: %w", program, err)
	}
	return from, dir, version, nil
}

func asset(program Program) (path string, found bool) {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		return "", false
	}
	path, err := exec.LookPath(filepath.Join(dir, string(program)))
	return path, err == nil
}
