// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"os"
)

// proxyConfiguration takes the path of the kubeconfig. The limits of connection tracking belong to the machine.
const proxyConfiguration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: %q}
hostnameOverride: ` + Name + `
clusterCIDR: ` + podRange + `
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// startProxy starts kube-proxy. Nobody waits for it: the cluster's DNS, which is awaited, is a Service.
func (n *Node) startProxy() error {
	configuration := fmt.Sprintf(proxyConfiguration, n.Kubeconfig())
	if err := os.WriteFile(n.file("proxy.yaml"), []byte(configuration), 0o600); err != nil {
		return err
	}
	_, err := n.sandbox.Start("kube-proxy", n.paths.proxy, "--config="+n.file("proxy.yaml"))
	return err
}
