// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

const (
	// ofOperator is the source address of the operator and of the tests, and ofServers that of Redis servers and
	// sentinels where a network treats them differently.
	ofOperator, ofServers = "127.0.0.1", "127.0.0.2"
	// holdTime is longer than a call of the operator.
	holdTime = 3 * time.Second
)

// fronted returns servers and sentinels that reach the master through a proxy, as the operator does, but from another
// source address.
func fronted(t *testing.T, sentinels int) (*redistest.Replicated, *tcpproxy.Proxy) {
	t.Helper()
	var proxy *tcpproxy.Proxy
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{
		Sentinels: sentinels,
		Options:   redistest.Options{Args: []string{"--bind-source-addr", ofServers, "--protected-mode", "no"}},
		SentinelConfig: []string{
			"bind-source-addr " + ofServers, "sentinel announce-ip " + ofOperator, "protected-mode no",
		},
		Front: func(master string) string {
			proxy = tcpproxy.New(t, master)
			return proxy.Addr()
		},
	})
	return r, proxy
}

// The operator does not reach the master, and the sentinels do, so that there is no failover.
func TestOnlySentinelsReachTheMaster(t *testing.T) {
	skip.UnderShort(t, "needs Redis servers of its own; TestRedisFaults cuts the network to a single server")
	t.Parallel()
	r, proxy := fronted(t, 3)
	proxy.Spare(ofServers)
	fixture := fixtureOf(t, shared, r.Servers[0].Client(), usual, at(scaledjobv1.RedisSentinel, r.Addresses()...))
	play(t, fixture, "behind sentinels, network between operator and master holds everything back", "nothing is taken for an empty queue",
		func(ctx context.Context, meanwhile faults.Meanwhile) error {
			proxy.Hold(tcpproxy.Both)
			return errors.Join(meanwhile(ctx), sjtest.Pause(ctx, holdTime), proxy.Pass())
		})
}

// The same in a Cluster: the nodes reach each other by the ports that only they use.
func TestOnlyNodesReachAMaster(t *testing.T) {
	skip.UnderShort(t, "needs Redis servers of its own; TestRedisFaults cuts the network to a single server")
	t.Parallel()
	g := NewWithT(t)
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	fronted := s.Nodes[2]
	proxy := tcpproxy.New(t, fronted.Addr())
	_, port, err := net.SplitHostPort(proxy.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(fronted.Client().ConfigSet(t.Context(), "cluster-announce-port", port).Err()).To(Succeed())
	g.Eventually(func() (string, error) { return s.Nodes[0].Client().ClusterNodes(t.Context()).Result() }).
		WithTimeout(stopTimeout).Should(ContainSubstring(proxy.Addr() + "@"))
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: s.Addresses(),
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == proxy.Addr() {
				address = fronted.Addr()
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	fixture := fixtureOf(t, shared, client, nil, at(scaledjobv1.RedisCluster, s.Nodes[0].Addr()))
	for i := 0; len(fixture.Queues) < 2; i++ { // One of them is on the node.
		name := fmt.Sprintf("queue-%d", i)
		if len(fixture.Queues) == 1 {
			owner := must.Get(s.OwnerAddress(t.Context(), s.Nodes[0], fixture.Queues[0].Namespace+":"+name))(g)
			if owner != proxy.Addr() {
				continue
			}
		}
		g.Expect(fixture.Add(t.Context(), name)).Error().NotTo(HaveOccurred())
	}
	play(t, fixture, "in a Cluster, network between operator and a master holds everything back", "nothing is taken for an empty queue",
		func(ctx context.Context, meanwhile faults.Meanwhile) error {
			proxy.Hold(tcpproxy.Both)
			return errors.Join(meanwhile(ctx), sjtest.Pause(ctx, holdTime), proxy.Pass())
		})
}

// One sentinel and the master are separated from all others, which make another server the master. The operator reaches
// all. Messages for the old master are lost, so no Job is due for them.
func TestSentinelsArePartitioned(t *testing.T) {
	skip.UnderShort(t, "needs Redis servers of its own; TestSentinelFaults tests the change of masters")
	t.Parallel()
	g := NewWithT(t)
	r, proxy := fronted(t, 2)
	old := r.Servers[0]
	client := failoverClient(r.Addresses())
	const user = "alone"
	for _, server := range r.Servers { // It may not meet the other sentinels there.
		g.Expect(server.Client().Do(t.Context(), "acl", "setuser", user, "on", ">"+user, "resetchannels", "+ping", "+info").Err()).To(Succeed())
	}
	alone, err := r.AddSentinel(t.Context(), "sentinel auth-user "+redistest.MasterName+" "+user, "sentinel auth-pass "+redistest.MasterName+" "+user,
		"bind-source-addr "+ofOperator)
	g.Expect(err).NotTo(HaveOccurred())
	fixture := fixtureOf(t, shared, client, usual, at(scaledjobv1.RedisSentinel, r.Addresses()...))
	play(t, fixture, "behind sentinels, one of them and the master separated from the others", "the sentinel that knows of the latest failover is right",
		func(ctx context.Context, meanwhile faults.Meanwhile) error {
			proxy.Spare(ofOperator)
			proxy.Hold(tcpproxy.Both)
			err := errors.Join(awaitOther(ctx, r, old), awaitLeft(ctx, client, old))
			for _, key := range keysOf(fixture) {
				err = errors.Join(err, old.Client().LPush(ctx, key, "lost", "lost", "lost").Err())
			}
			err = errors.Join(err, meanwhile(ctx), fixture.AwaitExpected(ctx))
			named, unknown := alone.Client().Do(ctx, "sentinel", "get-master-addr-by-name", redistest.MasterName).StringSlice()
			if unknown == nil && net.JoinHostPort(named[0], named[1]) != proxy.Addr() {
				unknown = errors.New("the separated sentinel knows of the failover")
			}
			return errors.Join(err, unknown, proxy.Pass(), mislead(ctx, old, keysOf(fixture)...))
		})
}

// awaitLeft waits until a client uses another server than this one.
func awaitLeft(ctx context.Context, client *redis.Client, old *redistest.Server) error {
	runID := func(ctx context.Context, of *redis.Client) (string, error) {
		info, err := of.Info(ctx, "server").Result()
		_, id, _ := strings.Cut(info, "run_id:")
		id, _, _ = strings.Cut(id, "\r\n")
		return id, err
	}
	before, err := runID(ctx, old.Client())
	if err != nil {
		return err
	}
	return sjtest.Await(ctx, func(ctx context.Context) error {
		now, err := runID(ctx, client)
		if err == nil && now == before {
			err = errors.New("the client uses the old master")
		}
		return err
	})
}
