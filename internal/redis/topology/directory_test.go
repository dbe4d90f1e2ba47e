// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unique"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/must"
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
	e := must.Get(auth.ParseDeployment(mode, addresses))(NewWithT(t))
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
	master := must.Get(r.Master(t.Context(), r.Sentinels[1]))(h)
	h.Eventually(h.owner("emails")).Should(Equal(master.Addr()))

	h.Expect(r.AwaitFormed(t.Context())).To(Succeed())
	// The sentinel that the user names ends. It has named the others.
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

func TestWhatIsNeitherASentinelNorAClusterIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	for _, mode := range []auth.Mode{auth.ModeSentinel, auth.ModeCluster} {
		h := follow(t, deployment(t, mode, server.Addr()))
		h.Eventually(h.why).Should(Equal(failure.ReasonWrongMode), "mode %v", mode)
	}
}

// All that happens to slots: they belong to different masters, are moved, and their master fails.
func TestSlotsAreFollowed(t *testing.T) {
	t.Parallel()
	s := redistest.NewSharded(t, redistest.ShardedOptions{})
	h := follow(t, deployment(t, auth.ModeCluster, s.Nodes[5].Addr())) // A replica.
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		master := must.Get(s.Owner(t.Context(), s.Nodes[0], key))(h)
		h.Eventually(h.owner(key)).Should(Equal(master.Addr()), key)
	}

	from := must.Get(s.Owner(t.Context(), s.Nodes[0], "a"))(h)
	to := must.Get(s.NotOwner(t.Context(), "a"))(h)
	moved := must.Get(s.BeginMigration(t.Context(), "a", to))(h)
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
		return strings.Count(clients, "\n"), err
	}
	h.Eventually(connected).Should(Equal(1), "that of the test")
}

// Each time that it is asked, a node names masters that it has never named before. The operator does not dial ever
// more.
func TestEverNewAddressesAreReported(t *testing.T) {
	t.Parallel()
	const masters = 200
	var asked atomic.Int64
	hostile := announcing(t, func() (said []string) {
		for i, round := 0, asked.Add(1); i < masters; i++ {
			said = append(said, slotsOf(i, i, fmt.Sprintf("127.%d.%d.1", round%256, i)))
		}
		return said
	})
	h := follow(t, deployment(t, auth.ModeCluster, hostile.Addr()))
	h.Eventually(func() string {
		_, err := h.Route(h.endpoint, "emails")
		return failure.Classify(err).Message
	}).Should(ContainSubstring("too many different addresses"))
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// secret has a password, which may change.
type secret struct{ value atomic.Pointer[string] }

func (s *secret) set(password string) *secret {
	s.value.Store(&password)
	return s
}

func (s *secret) Read(context.Context, string, string) (map[string][]byte, error) {
	return map[string][]byte{"password": []byte(*s.value.Load())}, nil
}

// A hostile server knows the password, and may announce it as the name of a host.
func TestAPasswordThatIsAnnouncedIsNotShown(t *testing.T) {
	t.Parallel()
	const password = "Wonder-7"
	hostile := announcing(t, func() []string { return []string{slotsOf(0, 16383, password)} })
	e := deployment(t, auth.ModeCluster, hostile.Addr())
	e.Password, e.Namespace = auth.SecretKey{Name: "redis", Key: "password"}, "team"
	h := followWith(t, connection.NewPool(connection.Options{Secrets: new(secret).set(password)}), e)
	h.Eventually(h.owner("emails")).Should(Equal("wonder-7:1"))
	at := must.Get(h.Route(e, "emails"))(h)
	is := failure.Classify(h.About(e, at.Owner, failure.Classify(syscall.ECONNREFUSED)))
	h.Expect(is.Message).To(And(ContainSubstring(`announce a node at "[redacted]"`), Not(ContainSubstring("wonder"))))
}

// subscribers returns the IDs of the connections with which a user has subscribed to channels.
func subscribers(ctx context.Context, client *redis.Client, user string) (ids []string) {
	for line := range strings.Lines(client.ClientList(ctx).Val()) {
		if fields := strings.Fields(line); slices.Contains(fields, "user="+user) && strings.Contains(line, " flags=P") {
			ids = append(ids, fields[0])
		}
	}
	return ids
}

// The connection for the events of a sentinel does not stay signed in with a former password.
func TestTheEventsOfASentinelComeWithTheCurrentPassword(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	sentinel := r.Sentinels[0].Client()
	g.Expect(sentinel.Do(t.Context(), "acl", "setuser", "watcher", "on", ">first", ">second", "allcommands", "allchannels").Err()).To(Succeed())
	password := new(secret).set("first")
	e := deployment(t, auth.ModeSentinel, r.Sentinels[0].Addr())
	e.Namespace = "team"
	e.Sentinels = unique.Make(auth.Sentinels{
		MasterName: redistest.MasterName, Username: "watcher", Password: auth.SecretKey{Name: "sentinels", Key: "password"},
	})
	h := followWith(t, connection.NewPool(connection.Options{Secrets: password, LookAgain: 50 * time.Millisecond}), e)
	subscribed := func() []string { return subscribers(t.Context(), sentinel, "watcher") }
	h.Eventually(subscribed).Should(HaveLen(1))
	first := subscribed()

	password.set("second")
	h.Eventually(subscribed).Should(And(HaveLen(1), Not(Equal(first))))
	h.Eventually(h.owner("emails")).Should(Equal(r.Servers[0].Addr()))
}
