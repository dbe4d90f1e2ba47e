// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"fmt"
	"os"
)

// kubeletConfiguration takes the folder of the node's files.
const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://` + runtimeSocket + `
authentication:
  anonymous: {enabled: true}
  webhook: {enabled: false}
authorization: {mode: AlwaysAllow}
clusterDomain: cluster.local
clusterDNS: [` + dnsAddress + `]
resolvConf: %[1]s/resolv.conf
podLogsDir: %[1]s/logs
volumePluginDir: %[1]s/volume-plugins
# Machines that run tests may have cgroups of version 1, and no capability SYS_RESOURCE.
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
failSwapOn: false
# An image that was imported stays usable after the same image was pulled under another name.
imagePullCredentialsVerificationPolicy: NeverVerify
# A full disk of the machine is no reason to stop Pods.
evictionHard: {}
`

func (n *Node) startKubelet(ctx context.Context) error {
	if err := os.WriteFile(n.file("resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		return err
	}
	configuration := fmt.Sprintf(kubeletConfiguration, n.sandbox.Dir())
	if err := os.WriteFile(n.file("kubelet.yaml"), []byte(configuration), 0o600); err != nil {
		return err
	}
	process, err := n.sandbox.Start("kubelet", n.paths.kubelet,
		"--config="+n.file("kubelet.yaml"),
		"--kubeconfig="+n.Kubeconfig(),
		"--hostname-override="+Name,
		"--node-ip="+address,
		"--root-dir="+n.file("kubelet"),
		"--cert-dir="+n.file("kubelet-certificates"))
	if err != nil {
		return err
	}
	return process.WaitReady(ctx, n.awaitReady)
}
