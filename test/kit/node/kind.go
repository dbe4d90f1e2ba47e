// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Kind is a cluster of kind, with a node for the control plane and two for Pods. It needs Docker, and the internet for
// the images that are not imported.
type Kind struct {
	folder string
}

const kindCluster = "scaledjob-operator-e2e"

const kindConfiguration = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
- role: worker
- role: worker
`

// StartKind creates the cluster and returns when its nodes are ready. One of an earlier run is deleted.
func StartKind(ctx context.Context) (*Kind, error) {
	folder, err := os.MkdirTemp("", "kind")
	if err != nil {
		return nil, err
	}
	kind := &Kind{folder: folder}
	configuration := filepath.Join(folder, "kind.yaml")
	if err := os.WriteFile(configuration, []byte(kindConfiguration), 0o600); err != nil {
		return nil, err
	}
	if err := command(ctx, "kind", "delete", "cluster", "--name="+kindCluster); err != nil {
		return nil, err
	}
	return kind, command(ctx, "kind", "create", "cluster", "--name="+kindCluster, "--config="+configuration,
		"--kubeconfig="+kind.Kubeconfig(), "--wait=3m")
}

// Kubeconfig returns the path of an administrator's kubeconfig file.
func (k *Kind) Kubeconfig() string { return filepath.Join(k.folder, "kubeconfig") }

// ImportImage makes the image in an archive known to the nodes.
func (k *Kind) ImportImage(ctx context.Context, archive string) error {
	return command(ctx, "kind", "load", "image-archive", archive, "--name="+kindCluster)
}

// LimitMemoryToUsage lowers the limit of the memory of a container to what it uses now, so that the kernel ends it as
// soon as it needs more.
func (k *Kind) LimitMemoryToUsage(ctx context.Context, node, containerID string) error {
	return command(ctx, "docker", "exec", node, "sh", "-euc", fmt.Sprintf(
		`folder=$(find /sys/fs/cgroup -type d -name '*%s*' | head -n 1); cat "$folder/memory.current" > "$folder/memory.max"`,
		containerID))
}

// Stop deletes the cluster.
func (k *Kind) Stop(ctx context.Context) error {
	if err := command(ctx, "kind", "delete", "cluster", "--name="+kindCluster); err != nil {
		return err
	}
	return os.RemoveAll(k.folder)
}
