// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/debian"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// packages are what a node takes from Debian: the container runtime, the plugins of its network, the tools that set up
// packet filters and interfaces, and Redis for an image.
var packages = []string{"containerd", "runc", "containernetworking-plugins", "nftables", "iproute2", "redis-tools"}

// programs are the paths of what a node runs, and of the archives of the images that it holds.
type programs struct {
	kubelet, proxy string
	debian         string // the folder with Debian's packages
	images         []string
}

// Prepare builds and fetches all that a node needs, which takes minutes the first time, and reports progress on log.
func Prepare(ctx context.Context, log io.Writer) error {
	_, err := prepare(ctx, log)
	return err
}

func prepare(ctx context.Context, log io.Writer) (programs, error) {
	if err := Possible(); err != nil {
		return programs{}, err
	}
	paths, err := binaries.Paths(ctx, log, append(binaries.ControlPlane(), binaries.Node()...)...)
	if err != nil {
		return programs{}, err
	}
	tool := toolcache.Tool{
		Folder:   fmt.Sprintf("node-%s-%s", debian.Release(), runtime.GOARCH),
		Activity: "fetching containerd with apt-get",
		Make: func(ctx context.Context, dir string, _ *progress.Line) error {
			return debian.Fetch(ctx, dir, packages...)
		},
	}
	root, err := tool.Dir(ctx, log)
	if err != nil {
		return programs{}, err
	}
	images, err := packImages(ctx, log, paths[binaries.CoreDNS], root)
	if err != nil {
		return programs{}, err
	}
	return programs{kubelet: paths[binaries.Kubelet], proxy: paths[binaries.Proxy], debian: root, images: images}, nil
}

// use makes the programs of Debian's packages known to this process and its children.
func (p programs) use() error {
	libraries, err := debian.LibraryFolders(p.debian)
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
