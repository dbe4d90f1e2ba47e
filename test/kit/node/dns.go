// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"bytes"
	"context"
	_ "embed" // the manifests
	"fmt"
	"net"
	"time"
)

// dnsAddress is that of the Service of the cluster's DNS.
const dnsAddress = "10.0.0.10"

//go:embed dns.yaml
var dnsManifests []byte

// startDNS runs CoreDNS in a Pod and returns when it answers by its Service.
func (n *Node) startDNS(ctx context.Context) error {
	if err := n.Apply(ctx, bytes.NewReader(dnsManifests)); err != nil {
		return err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(dnsAddress, "53"))
	}}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		_, err := resolver.LookupHost(asked, "kubernetes.default.svc.cluster.local.")
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster's DNS does not answer: %w", err)
		case <-ticker.C:
		}
	}
}
