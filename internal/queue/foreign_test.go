// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// Sentinels never forget another one that is gone. Its address may be that of a sentinel of another deployment by now, as
// those of Pods are, and the name of the master is often the same.
func TestASentinelOfAnotherDeploymentIsNotBelieved(t *testing.T) {
	t.Parallel()
	mine, foreign := redistest.New(t, redistest.Options{}), redistest.New(t, redistest.Options{})
	d := newDeployed(t, auth.ModeSentinel, sentinelOf(t, mine.Addr(), "mine", 1, sentinelOf(t, foreign.Addr(), "foreign", 9)))
	d.Expect(foreign.Client().LPush(t.Context(), "emails", 1, 2, 3).Err()).To(Succeed())
	read := d.counts(queue.Queue{Key: "emails"})
	d.never(read, 0)
	d.eventually(read, 0)
}

// sentinelOf runs what answers as a sentinel, and returns its address. It knows others, by IDs that they do not have.
func sentinelOf(t *testing.T, master, id string, epoch int, others ...string) string {
	t.Helper()
	list := func(words ...string) string { return string(resp.AppendCommand(nil, words...)) }
	host, port, err := net.SplitHostPort(master)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	known := fmt.Sprintf("*%d\r\n", len(others))
	for _, other := range others {
		ip, at, err := net.SplitHostPort(other)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		known += list("name", "gone", "ip", ip, "port", at, "runid", "gone", "flags", "s_down,sentinel")
	}
	return redistest.NewScripted(t, func(args []string) string {
		if args[0] != "sentinel" {
			return redistest.Usual
		}
		switch args[1] {
		case "master":
			return list("name", redistest.MasterName, "ip", host, "port", port, "flags", "master", "config-epoch", strconv.Itoa(epoch))
		case "get-master-addr-by-name":
			return list(host, port)
		case "myid":
			return "+" + id + "\r\n"
		}
		return known
	}).Addr()
}

// The same in a Cluster: a node of another one has got the address of a master. It names itself by another ID than the
// nodes of this Cluster do.
func TestANodeOfAnotherClusterIsNotBelieved(t *testing.T) {
	t.Parallel()
	foreign := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	client := clusterClient(t, foreign)
	for _, key := range []string{"a", "b", "c"} { // On three masters.
		NewWithT(t).Expect(client.LPush(t.Context(), key, 1, 2, 3).Err()).To(Succeed())
	}
	owner, err := foreign.Owner(t.Context(), foreign.Nodes[0], "a")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	reused := owner.Addr()
	node := func(address, id string) string {
		host, port, _ := net.SplitHostPort(address)
		return fmt.Sprintf("*3\r\n$%d\r\n%s\r\n:%s\r\n$%d\r\n%s\r\n", len(host), host, port, len(id), id)
	}
	var mine *redistest.Scripted
	mine = redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] != "cluster":
			return redistest.Usual // Each list is empty.
		case args[1] == "slots":
			return "*2\r\n*3\r\n:0\r\n:9999\r\n" + node(mine.Addr(), "mine") + "*3\r\n:10000\r\n:16383\r\n" + node(reused, "gone")
		}
		text := fmt.Sprintf("mine %s@1 myself,master - 0 0 0 connected 0-9999\ngone %s@1 master - 0 0 0 connected 10000-16383\n", mine.Addr(), reused)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	})
	d := newDeployed(t, auth.ModeCluster, mine.Addr())
	// What the foreign node says of the slots of this Cluster does not count.
	own := d.counts(queue.Queue{Key: "b"}, queue.Queue{Key: "c"})
	d.never(own, 0, 0)
	d.eventually(own, 0, 0)
	// Its own keys are not read once it was asked who it is.
	its := func() error { _, err := d.counts(queue.Queue{Key: "a"})(); return err }
	d.Eventually(its).WithTimeout(timeout).Should(MatchError(ContainSubstring("no node has slot")))
	d.Consistently(its).WithTimeout(timeout / 10).Should(MatchError(ContainSubstring("no node has slot")))
}
