// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries finds the programs of a Kubernetes control plane, and
// kubectl, building them once from the Go modules pinned below this folder.
//
// It does not try setup-envtest: that has no kube-controller-manager, and the
// build of this one compiles nearly all of kube-apiserver. Whoever has run
// setup-envtest points KUBEBUILDER_ASSETS at what it fetched.
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

// Node returns what a real node needs besides.
func Node() []Program {
	return []Program{Scheduler, Kubelet, Proxy, CoreDNS}
}

// assetsVariable names the folder that controller-runtime's test environment
// takes its programs from.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Path returns the path of a program: in the folder KUBEBUILDER_ASSETS names if
// it is there, in the cache folder if it was built before, else built now,
// which takes minutes and reports progress on log. It must be called from
// inside the source of this module, as the nested modules are found from there.
func Path(ctx context.Context, log io.Writer, program Program) (string, error) {
	if path, found := asset(program); found {
		return path, nil
	}
	source, found := sources[program]
	if !found {
		return "", fmt.Errorf("%q is no program of a control plane", program)
	}
	dir, err := source.dir()
	if err != nil {
		return "", fmt.Errorf("finding the source of %s: %w", program, err)
	}
	version, err := source.version(dir)
	if err != nil {
		return "", fmt.Errorf("finding the version of %s: %w", program, err)
	}
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("%s-%s-%s-%s", program, version, runtime.GOOS, runtime.GOARCH),
		Activity: fmt.Sprintf("building %s %s", program, version),
		Make: func(ctx context.Context, target string) error {
			return source.build(ctx, dir, version, filepath.Join(target, string(program)))
		},
	}
	made, err := tool.Dir(ctx, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(made, string(program)), nil
}

func asset(program Program) (path string, found bool) {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		return "", false
	}
	path, err := exec.LookPath(filepath.Join(dir, string(program)))
	return path, err == nil
}
