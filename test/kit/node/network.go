// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"os"
	"strings"
)

// podRange holds the addresses of Pods.
const podRange = "10.244.0.0/24"

// setUpNetwork gives the network namespace an interface with the address of the node. The default route leads to it,
// since a packet to a Service needs a route before kube-proxy's rules give it its destination.
func setUpNetwork(ctx context.Context) error {
	for _, line := range []string{
		"ip link set lo up",
		"ip link add node type veth peer name node-peer", // kernels without the type dummy have this one
		"ip address add " + address + "/24 dev node",
		"ip link set node up",
		"ip link set node-peer up",
		"ip route add default dev node",
	} {
		words := strings.Fields(line)
		if err := command(ctx, words[0], words[1:]...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

// cniConfiguration connects each Pod to the node by a pair of interfaces.
const cniConfiguration = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [{
    "type": "ptp",
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": "` + podRange + `"}]],
      "routes": [{"dst": "0.0.0.0/0"}],
      "dataDir": "/run/cni"
    }
  }]
}
`
