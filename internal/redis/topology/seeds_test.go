// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// The Service that the user names leads to another Cluster from now on. The old one goes on running for a while.
func TestASeedThatLeadsToAnotherClusterIsFollowed(t *testing.T) {
	t.Parallel()
	node := func() *redistest.Scripted {
		var own *redistest.Scripted
		own = redistest.NewScripted(t, func(args []string) string { return namesOwner(args, own.Addr()) })
		return own
	}
	first, second := node(), node()
	var leadsTo atomic.Pointer[redistest.Scripted]
	leadsTo.Store(first)
	seed := redistest.NewScripted(t, func(args []string) string { return namesOwner(args, leadsTo.Load().Addr()) })

	h := follow(t, deployment(t, auth.ModeCluster, seed.Addr()))
	h.Eventually(h.owner("emails")).Should(Equal(first.Addr()))
	leadsTo.Store(second)
	h.Eventually(h.owner("emails")).Should(Equal(second.Addr()))
}

// namesOwner answers as a node of a Cluster that has one master.
func namesOwner(args []string, address string) string {
	switch {
	case args[0] != "cluster":
		return redistest.Usual
	case args[1] != "slots":
		return "-ERR unknown subcommand\r\n"
	}
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
}
