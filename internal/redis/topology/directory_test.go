// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const timeout = 30 * time.Second

// harness is a Directory at work for one deployment.
type harness struct {
	*WithT
	*topology.Directory
	endpoint auth.Endpoint
	// changed has a token after a user was called because a route may have changed.
	changed chan string
}

func follow(t *testing.T, e auth.Endpoint) *harness {
	t.Helper()
	return followWith(t, connection.NewPool(connection.Options{}), e)
}

func followWith(t *testing.T, pool *connection.Pool, e auth.Endpoint) *harness {
	t.Helper()
	h := &harness{
		WithT: NewWithT(t), Directory: topology.New(pool, logr.Discard()), endpoint: e, changed: make(chan string, 1),
	}
	h.OnChange(func(tenant, name string) {
		select {
		case h.changed <- tenant + "/" + name:
		default:
		}
	})
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { _ = h.Start(t.Context()) })
	t.Cleanup(running.Wait)
	h.SetDefaultEventuallyTimeout(timeout)
	h.Expect(h.Claim("team", "emails", e, 0)).To(Succeed())
	return h
}

func deployment(t *testing.T, mode auth.Mode, addresses ...string) auth.Endpoint {
	t.Helper()
	e, err := auth.ParseDeployment(mode, addresses)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if mode == auth.ModeSentinel {
		e.Sentinels = unique.Make(auth.Sentinels{MasterName: redistest.MasterName})
	}
	return e
}

// owner returns the address of the server that has a key, and "" while that is not known.
func (h *harness) owner(key string) func() string {
	return func() string {
		at, err := h.Route(h.endpoint, key)
		if err != nil {
			return ""
		}
		return at.Owner.Address
	}
}

// why returns the reason for which it is not known where a key is.
func (h *harness) why() failure.Reason {
	_, err := h.Route(h.endpoint, "emails")
	if cause := failure.Classify(err); cause != nil && !cause.Busy() {
		return cause.Reason
	}
	return ""
}

func TestAServerHasItsKeys(t *testing.T) {
	t.Parallel()
	h := follow(t, auth.Endpoint{Address: "127.0.0.1:1"})
	h.Expect(h.Route(h.endpoint, "emails")).To(Equal(topology.Route{Owner: h.endpoint}))
	h.Expect(h.Version(h.endpoint)).To(BeZero())
}

func TestAFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{})
	h := follow(t, deployment(t, auth.ModeSentinel, r.Sentinels[0].Addr()))
	first := r.Servers[0].Addr()
	h.Eventually(h.owner("emails")).Should(Equal(first))
	h.Eventually(h.changed).Should(Receive(Equal("team/emails")))

	h.Expect(r.Failover(t.Context(), r.Sentinels[1])).To(Succeed())
	h.Eventually(h.owner("emails")).ShouldNot(BeElementOf(first, ""))
	h.Eventually(h.changed).Should(Receive(Equal("team/emails")))
	master, err := r.Master(t.Context(), r.Sentinels[1])
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(h.owner("emails")).Should(Equal(master.Addr()))

	h.Expect(r.AwaitFormed(t.Context())).To(Succeed())
	// The sentinel that the user names ends. It has told of the others.
	h.Expect(r.Sentinels[0].Kill()).To(Succeed())
	h.Expect(master.Kill()).To(Succeed())
	h.Eventually(h.owner("emails")).ShouldNot(BeElementOf(master.Addr(), ""))
}

func TestSentinelsThatAreGoneAreNotBelieved(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	h := follow(t, deployment(t, auth.ModeSentinel, r.Addresses()...))
	h.Eventually(h.owner("emails")).Should(Equal(r.Servers[0].Addr()))
	h.Expect(r.Sentinels[0].Pause()).To(Succeed())
	h.Eventually(h.why).Should(Equal(failure.ReasonUnreachable), "although the master works")
	h.Expect(r.Sentinels[0].Resume()).To(Succeed())
	h.Eventually(h.owner("emails")).Should(Equal(r.Servers[0].Addr()))
}

func TestWhatIsNoSentinelIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := follow(t, deployment(t, auth.ModeSentinel, server.Addr()))
	h.Eventually(h.why).Should(Equal(failure.ReasonWrongMode))
}

func TestANameThatNoSentinelKnowsIsTold(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	e := deployment(t, auth.ModeSentinel, r.Addresses()...)
	e.Sentinels = unique.Make(auth.Sentinels{MasterName: "other"})
	h := follow(t, e)
	h.Eventually(h.why).Should(Equal(failure.ReasonMasterNotFound))
}

// Without it, the operator would not know that a slot is being moved.
func TestAMissingPermissionToAskNodesIsTold(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"-cluster|slots", "-cluster|nodes"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t, redistest.Options{Cluster: true})
			NewWithT(t).Expect(server.Client().Do(t.Context(), "acl", "setuser", "default", command).Err()).To(Succeed())
			h := follow(t, deployment(t, auth.ModeCluster, server.Addr()))
			h.Eventually(h.why).Should(Equal(failure.ReasonPermissionDenied))
		})
	}
}

func TestAMissingPermissionToAskSentinelsIsTold(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	for _, command := range []string{"sentinel|get-master-addr-by-name", "sentinel|master"} {
		server := r.Sentinels[0].Client()
		g := NewWithT(t)
		g.Expect(server.Do(t.Context(), "acl", "setuser", "default", "-"+command).Err()).To(Succeed())
		h := follow(t, deployment(t, auth.ModeSentinel, r.Addresses()...))
		h.Eventually(h.why).Should(Equal(failure.ReasonPermissionDenied))
		g.Expect(server.Do(t.Context(), "acl", "setuser", "default", "+"+command).Err()).To(Succeed())
	}
}

func TestWhatIsNoClusterIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := follow(t, deployment(t, auth.ModeCluster, server.Addr()))
	h.Eventually(h.why).Should(Equal(failure.ReasonWrongMode))
}

func TestAnEmptyClusterIsTold(t *testing.T) {
	t.Parallel()
	node := redistest.New(t, redistest.Options{Cluster: true})
	h := follow(t, deployment(t, auth.ModeCluster, node.Addr()))
	h.Eventually(h.why).Should(Equal(failure.ReasonUnreachable))
}

// All that happens to slots: they belong to different masters, are moved, and their master fails.
func TestSlotsAreFollowed(t *testing.T) {
	t.Parallel()
	s := redistest.NewSharded(t, redistest.ShardedOptions{})
	h := follow(t, deployment(t, auth.ModeCluster, s.Nodes[5].Addr())) // A replica.
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		master, err := s.Owner(t.Context(), s.Nodes[0], key)
		h.Expect(err).NotTo(HaveOccurred())
		h.Eventually(h.owner(key)).Should(Equal(master.Addr()), key)
	}

	from, err := s.Owner(t.Context(), s.Nodes[0], "a")
	h.Expect(err).NotTo(HaveOccurred())
	to := s.Nodes[0]
	if from == to {
		to = s.Nodes[1]
	}
	moved, err := s.BeginMigration(t.Context(), "a", to)
	h.Expect(err).NotTo(HaveOccurred())
	importing := func() (topology.Route, error) { return h.Route(h.endpoint, "a") }
	h.Eventually(importing).Should(Equal(topology.Route{
		Owner: h.endpoint.ServerAt(from.Addr()), Importing: h.endpoint.ServerAt(to.Addr()),
	}))
	h.Expect(moved.End(t.Context())).To(Succeed())
	h.Eventually(importing).Should(Equal(topology.Route{Owner: h.endpoint.ServerAt(to.Addr())}))

	h.Expect(to.Kill()).To(Succeed())
	h.Eventually(h.owner("a")).ShouldNot(BeElementOf(to.Addr(), ""))
}

func TestADeploymentThatNobodyUsesIsNotAsked(t *testing.T) {
	t.Parallel()
	node := redistest.New(t, redistest.Options{Cluster: true})
	h := follow(t, deployment(t, auth.ModeCluster, node.Addr()))
	h.Eventually(h.why).ShouldNot(BeEmpty())
	h.Release("team", "emails")
	h.Expect(h.why()).To(BeEmpty())
	connected := func() (int, error) {
		clients, err := node.Client().ClientList(t.Context()).Result()
		return len(splitLines(clients)), err
	}
	h.Eventually(connected).Should(Equal(1), "that of the test")
}

// A namespace may use one server. A Cluster is as one, however many nodes it has.
func TestADeploymentCountsOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	pool := connection.NewPool(connection.Options{ServersPerTenant: 1, CallTimeout: timeout})
	h := followWith(t, pool, deployment(t, auth.ModeCluster, s.Addresses()...))
	for _, key := range []string{"a", "b", "c"} { // On three masters.
		h.Eventually(h.owner(key)).ShouldNot(BeEmpty())
		at, err := h.Route(h.endpoint, key)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pool.ConnFor("team", at.Owner, 0).Do(t.Context(), func(ctx context.Context, client connection.Client) error {
			return client.LLen(ctx, key).Err()
		})).To(Succeed())
	}
	g.Expect(h.Claim("team", "invoices", h.endpoint, 0)).To(Succeed(), "the same Cluster")
	another := h.Claim("team", "reports", auth.Endpoint{Address: "127.0.0.1:1"}, 0)
	g.Expect(failure.Classify(another).Reason).To(Equal(failure.ReasonTooManyServers))
}

// Each time that it is asked, a node names masters that it has never named before. The operator does not dial ever more.
func TestEverNewAddressesAreTold(t *testing.T) {
	t.Parallel()
	const masters = 200
	var asked atomic.Int64
	hostile := redistest.NewScripted(t, func(args []string) string {
		if args[0] != "cluster" {
			return redistest.Usual
		}
		if args[1] != "slots" {
			return "-ERR unknown subcommand\r\n"
		}
		reply := fmt.Sprintf("*%d\r\n", masters)
		for i, round := 0, asked.Add(1); i < masters; i++ {
			host := fmt.Sprintf("127.%d.%d.1", round%256, i)
			reply += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:1\r\n", i, i, len(host), host)
		}
		return reply
	})
	h := follow(t, deployment(t, auth.ModeCluster, hostile.Addr()))
	h.Eventually(func() string {
		_, err := h.Route(h.endpoint, "emails")
		return failure.Classify(err).Message
	}).Should(ContainSubstring("too many different addresses"))
}

func splitLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}
