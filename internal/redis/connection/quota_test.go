// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

var (
	one   = claim{serverDatabase: serverDatabase{endpoint: auth.Endpoint{Address: "one:6379"}}}
	other = claim{serverDatabase: serverDatabase{endpoint: auth.Endpoint{Address: "one:6379"}, number: 1}}
)

func TestWhatIsClaimed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	quota := newServerQuota(0)
	a, b, c := Owner{"team", "a"}, Owner{"team", "b"}, Owner{"others", "a"}
	g.Expect(quota.add(a, one)).To(Succeed())
	g.Expect(quota.add(b, one)).To(Succeed())
	g.Expect(quota.add(c, other)).To(Succeed())

	quota.remove(a)
	g.Expect(quota.claimed(one.serverDatabase)).To(BeTrue(), "b claims it too")
	given, had := quota.remove(b)
	g.Expect(given).To(Equal(one))
	g.Expect(had).To(BeTrue())
	g.Expect(quota.claimed(one.serverDatabase)).To(BeFalse())
	g.Expect(quota.endpointClaimed(one.endpoint)).To(BeTrue(), "another database of it is claimed")
	_, had = quota.remove(b)
	g.Expect(had).To(BeFalse())
	quota.remove(c)
	g.Expect(quota).To(Equal(newServerQuota(0)), "nothing is left")
}

func numbered(i int) auth.Endpoint {
	return auth.Endpoint{Address: "redis-" + strconv.Itoa(i) + ":6379"}
}

func TestATenantClaimsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := NewPool(Options{ServersPerTenant: 2})
	g.Expect(pool.Claim("team", "a", numbered(1), 0)).To(Succeed())
	g.Expect(pool.Claim("team", "b", numbered(1), 1)).To(Succeed(), "each database counts")
	g.Expect(pool.Claim("team", "c", numbered(1), 1)).To(Succeed(), "b claims the same database")
	g.Expect(pool.Claim("other", "a", numbered(2), 0)).To(Succeed(), "another tenant")

	refused := pool.Claim("team", "d", numbered(2), 0)
	g.Expect(failure.Classify(refused).Reason).To(Equal(failure.ReasonTooManyServers))
	g.Expect(failure.Classify(refused).Message).To(ContainSubstring("--max-redis-servers-per-namespace"))
	g.Expect(pool.Claim("team", "a", numbered(2), 0)).To(Succeed(), "a gives up its former claim")

	g.Expect(pool.Claim("team", "b", numbered(3), 0)).NotTo(Succeed(), "c still claims what b does")
	pool.Release("team", "c")
	g.Expect(pool.Claim("team", "d", numbered(3), 0)).To(Succeed(), "b has no claim any longer")
	for _, name := range []string{"a", "b", "c", "d"} {
		pool.Release("team", name)
		pool.Release("other", name)
	}
	g.Expect(pool.quota).To(Equal(newServerQuota(2)), "nothing is left")
}

func TestWithoutALimitAnyNumberIsClaimed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := NewPool(Options{})
	for i := range 100 {
		g.Expect(pool.Claim("team", strconv.Itoa(i), numbered(i), 0)).To(Succeed())
	}
}

func TestWhatNobodyClaimsAnyMoreIsClosed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	pool := startReal(t)
	endpoint := auth.Endpoint{Address: server.Addr()}
	for name, database := range map[string]int{"a": 0, "b": 0, "c": 5} {
		g.Expect(pool.Claim("team", name, endpoint, database)).To(Succeed())
		length(t, pool.Conn(endpoint, database))
	}
	wire := openWire(t, pool.Conn(endpoint, 0))
	open := func() int { return clientsOf(t, server) }
	g.Eventually(open).WithTimeout(timeout).Should(Equal(3))

	pool.Release("team", "a")
	g.Expect(open()).To(Equal(3), "it is still claimed")
	g.Expect(pool.Claim("team", "c", endpoint, 0)).To(Succeed())
	g.Eventually(open).WithTimeout(timeout).Should(Equal(2), "the endpoint is still claimed")
	g.Expect(server.Client().ClientList(t.Context()).Val()).NotTo(ContainSubstring("db=5"))
	pool.Release("team", "b")
	pool.Release("team", "c")
	g.Eventually(open).WithTimeout(timeout).Should(BeZero())
	_, err := receive(wire)
	for err == nil {
		_, err = receive(wire)
	}
	g.Expect(length(t, pool.Conn(endpoint, 0))).To(BeZero(), "the endpoint can be used again")
}

func TestAWaitEndsWhenItsServerIsClosed(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		g.Expect(pool.Claim("team", "a", somewhere, 0)).To(Succeed())
		g.Expect(pool.Conn(somewhere, 0).Do(t.Context(), dial)).NotTo(Succeed())
		waited := make(chan error)
		go func() { waited <- pool.Conn(somewhere, 0).WaitUp(t.Context()) }()
		synctest.Wait()
		pool.Release("team", "a")
		g.Expect(<-waited).To(Succeed())
		g.Expect(pool.servers).To(BeEmpty())
	})
}

// A subscription ends a moment after its claim, and may try to connect in between.
func TestNothingIsKeptOfWhatIsUsedForAMomentAfterItsClaim(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		conn := pool.Conn(somewhere, 0)
		g.Expect(pool.Claim("team", "a", somewhere, 0)).To(Succeed())
		g.Expect(conn.Do(t.Context(), dial)).NotTo(Succeed())
		pool.Release("team", "a")

		g.Expect(conn.WaitUp(t.Context())).To(Succeed())
		g.Expect(conn.OpenWire(t.Context())).Error().To(HaveOccurred())
		synctest.Wait()
		pool.mu.Lock()
		defer pool.mu.Unlock()
		g.Expect(pool.servers).To(BeEmpty(), "a prober would go on to dial it")
	})
}

// clusterOf returns a Cluster whose password is in a Secret.
func clusterOf(name string) auth.Endpoint {
	return auth.Endpoint{Mode: auth.ModeCluster, Address: name + ":6379", Password: password, Namespace: namespace}
}

// poolOf returns a pool with a Cluster of three nodes, among so many other servers.
func poolOf(tb testing.TB, others int) (*Pool, auth.Endpoint) {
	tb.Helper()
	pool := NewPool(Options{})
	used := func(e auth.Endpoint) {
		server, err := pool.acquire(e)
		if err != nil {
			tb.Fatal(err)
		}
		pool.release(server)
	}
	mine := clusterOf("mine")
	for node := range 3 {
		used(mine.ServerAt(numbered(node).Address))
	}
	for i := range others {
		used(clusterOf("cluster-" + strconv.Itoa(i%64)).ServerAt(numbered(i).Address))
	}
	return pool, mine
}

// Each reconcile asks for the servers of its deployment. With 1,000 servers of others, this takes as long as without.
func TestServersOfOthersAreNotLookedAt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fastest := func(others int) time.Duration {
		pool, mine := poolOf(t, others)
		g.Expect(pool.serversIn(mine)).To(HaveLen(3))
		least := time.Hour
		for range 200 {
			began := time.Now()
			g.Expect(pool.Rejected(mine)).To(BeNil())
			least = min(least, time.Since(began))
		}
		return least
	}
	g.Expect(fastest(1000)).To(BeNumerically("<", 5*fastest(0)+time.Microsecond))
}

// Nothing is left of a deployment whose servers were forgotten.
func TestDeploymentIsForgottenWithItsServers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool, mine := poolOf(t, 10)
	pool.timing.idle = 0
	found := pool.serversIn(mine)
	g.Expect(found).To(HaveLen(3))
	for _, server := range found {
		g.Expect(pool.forgetIdle(server)).To(BeTrue())
	}
	g.Expect(pool.serversIn(mine)).To(BeEmpty())
	g.Expect(pool.deployments).NotTo(HaveKey(mine))
}

// A Cluster counts as many servers as it has masters with keys of the owners, each once, and as one while they are not
// known.
func TestMastersInUseCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := NewPool(Options{ServersPerTenant: 4})
	cluster := clusterOf("mine")
	master := func(i int) auth.Endpoint { return cluster.ServerAt(numbered(i).Address) }
	g.Expect(pool.Claim("team", "a", cluster, 0)).To(Succeed())
	g.Expect(pool.Claim("team", "b", numbered(9), 0)).To(Succeed())
	g.Expect(pool.Claim("team", "a", cluster, 0, master(1), master(2))).To(Succeed())
	g.Expect(pool.Claim("team", "c", cluster, 0, master(2), master(3))).To(Succeed(), "4 with that of b")
	g.Expect(failure.Classify(pool.Claim("team", "d", cluster, 0, master(4))).Reason).To(Equal(failure.ReasonTooManyServers))
	g.Expect(pool.Claim("team", "d", cluster, 0, master(1), master(3))).To(Succeed(), "a and c use them too")
	g.Expect(pool.Claim("other", "a", cluster, 0, master(4))).To(Succeed(), "another tenant")

	a, c, d := Owner{"team", "a"}, Owner{"team", "c"}, Owner{"team", "d"}
	g.Expect(pool.ClaimAgain(map[Owner][]auth.Endpoint{
		a: {master(11), master(12)}, c: {master(12), master(13)}, d: {master(11), master(13)},
	})).To(BeEmpty(), "all masters were replaced")
	refused := pool.ClaimAgain(map[Owner][]auth.Endpoint{
		a: {master(11), master(12)}, c: {master(12), master(13), master(14)}, d: {master(11), master(12)},
	})
	g.Expect(refused).To(And(HaveLen(1), HaveKey(c)))
	g.Expect(pool.quota.endpointClaimed(master(14))).To(BeTrue(), "c uses the Cluster still")
	for _, name := range []string{"a", "b", "c", "d"} {
		pool.Release("team", name)
		pool.Release("other", name)
	}
	g.Expect(pool.quota).To(Equal(newServerQuota(4)), "nothing is left")
}
