// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// runtimeSocket is where containerd listens.
const runtimeSocket = "/run/containerd/containerd.sock"

// runtimeConfiguration takes the folders for containerd's files, CNI plugins, and their configuration.
const runtimeConfiguration = `version = 2
root = %q
state = "/run/containerd"

[grpc]
address = "` + runtimeSocket + `"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "` + pauseImage + `"
# Without the capability SYS_RESOURCE, a lower value can't be set.
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
`

func (n *Node) startContainerd(ctx context.Context) error {
	networks := n.file("cni")
	if err := os.Mkdir(networks, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(networks, "pods.conflist"), []byte(cniConfiguration), 0o600); err != nil {
		return err
	}
	configuration := fmt.Sprintf(runtimeConfiguration,
		n.file("containerd"), filepath.Join(n.paths.debian, "usr/lib/cni"), networks)
	if err := os.WriteFile(n.file("containerd.toml"), []byte(configuration), 0o600); err != nil {
		return err
	}
	program := filepath.Join(n.paths.debian, "usr/bin/containerd")
	process, err := n.sandbox.Start("containerd", program, "--config="+n.file("containerd.toml"))
	if err != nil {
		return err
	}
	return process.WaitReady(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", runtimeSocket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// ImportImage makes the image in an archive known to the node, as a load of kind does.
func (n *Node) ImportImage(ctx context.Context, archive string) error {
	return command(ctx, "ctr", "--address="+runtimeSocket, "--namespace=k8s.io", "images", "import", archive)
}

func (n *Node) importImages(ctx context.Context, archives []string) error {
	for _, archive := range archives {
		if err := n.ImportImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// LimitMemoryToUsage lowers the limit of the memory of a container to what it uses now, so that the kernel ends it as
// soon as it needs more.
func (n *Node) LimitMemoryToUsage(_ context.Context, _, containerID string) error {
	folder, usage, limit := "/sys/fs/cgroup/memory/k8s.io", "memory.usage_in_bytes", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		folder, usage, limit = "/sys/fs/cgroup/k8s.io", "memory.current", "memory.max"
	}
	bytes, err := os.ReadFile(filepath.Join(folder, containerID, usage))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, containerID, limit), bytes, 0o600)
}
