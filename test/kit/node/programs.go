// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// paths are those of what a node runs.
type paths struct {
	kubelet, proxy, dns string
	debian              string // the folder with Debian's packages
}

// Prepare builds and fetches all that a node needs, which takes minutes the first time, and reports progress on log.
func Prepare(ctx context.Context, log io.Writer) error {
	_, err := prepare(ctx, log)
	return err
}

func prepare(ctx context.Context, log io.Writer) (paths, error) {
	if err := Possible(); err != nil {
		return paths{}, err
	}
	found, err := programs.Paths(ctx, log,
		"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kube-scheduler", "kubelet", "kube-proxy", "coredns", "node")
	return paths{kubelet: found["kubelet"], proxy: found["kube-proxy"], dns: found["coredns"], debian: found["node"]}, err
}

// use makes the programs of Debian's packages known to this process and its children.
func (p paths) use() error {
	libraries, err := libraryFolders(p.debian)
	if err != nil {
		return err
	}
	var folders []string
	for _, folder := range []string{"usr/sbin", "usr/bin", "sbin", "bin"} {
		folders = append(folders, filepath.Join(p.debian, folder))
	}
	path := strings.Join(append(folders, os.Getenv("PATH")), ":")
	if err := os.Setenv("PATH", path); err != nil {
		return err
	}
	return os.Setenv("LD_LIBRARY_PATH", strings.Join(libraries, ":"))
}

// libraryFolders are the folders with libraries among Debian's packages.
func libraryFolders(root string) ([]string, error) {
	var folders []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		folders = append(folders, found...)
	}
	return folders, nil
}
