// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// deployed is a reader of a deployment.
type deployed struct {
	Gomega
	t        *testing.T
	reader   *queue.Reader
	endpoint auth.Endpoint
}

func newDeployed(t *testing.T, mode auth.Mode, addresses ...string) *deployed {
	t.Helper()
	g := NewWithT(t)
	endpoint := must.Get(auth.ParseDeployment(mode, addresses))(g)
	if mode == auth.ModeSentinel {
		endpoint.Sentinels = unique.Make(auth.Sentinels{MasterName: redistest.MasterName})
	}
	pool := startPool(t)
	directory := topology.New(pool, logr.Discard())
	var running sync.WaitGroup
	running.Go(func() { _ = directory.Start(t.Context()) })
	t.Cleanup(running.Wait)
	g.Expect(directory.Claim("team", "emails", endpoint, 0)).To(Succeed())
	return &deployed{Gomega: g, t: t, reader: queue.NewReader(pool, directory), endpoint: endpoint}
}

// counts returns the number of messages in each queue, waiting or in progress.
func (d *deployed) counts(queues ...queue.Queue) func() ([]int64, error) {
	return func() ([]int64, error) {
		found, err := d.reader.Observe(d.t.Context(), queue.Source{Endpoint: d.endpoint, Queues: queues, CountLimit: countLimit})
		if err != nil {
			return nil, err
		}
		lengths := make([]int64, len(found))
		for i, each := range found {
			lengths[i] = each.Waiting + each.InProgress
		}
		return lengths, nil
	}
}

// eventually waits until the counts are these.
func (d *deployed) eventually(read func() ([]int64, error), lengths ...int64) {
	d.t.Helper()
	d.Eventually(read).WithTimeout(timeout).Should(Equal(lengths))
}

// never fails if the counts are ever anything else than these, while all queues can be read or not.
func (d *deployed) never(read func() ([]int64, error), lengths ...int64) {
	d.t.Helper()
	d.Consistently(func() []int64 {
		found, err := read()
		if err != nil {
			return lengths
		}
		return found
	}).WithTimeout(2 * time.Second).Should(Equal(lengths))
}

// clusterClient returns a client that follows the slots.
func clusterClient(t *testing.T, s *redistest.Sharded) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses()})
	t.Cleanup(func() { NewWithT(t).Expect(client.Close()).To(Succeed()) })
	return client
}

// Of one stream, pending entries were trimmed. Of the other one, Redis does not say how many entries the group has not
// read. Both are counted on the owner of a slot, and on the server that the slot is moved to, and not guessed.
func TestStreamsAreCountedWhileTheirSlotIsMoved(t *testing.T) {
	t.Parallel()
	const trimmed, uncertain, group = "{s}trimmed", "{s}uncertain", "workers"
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	d := newDeployed(t, auth.ModeCluster, s.Nodes[0].Addr())
	client := clusterClient(t, s)
	add := func(key string) string {
		id, err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []string{"message", "1"}}).Result()
		d.Expect(err).NotTo(HaveOccurred())
		return id
	}
	readAll := func(key string) {
		d.Expect(client.XGroupCreate(t.Context(), key, group, "0").Err()).To(Succeed())
		d.Expect(client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: group, Consumer: "c", Streams: []string{key, ">"}}).Err()).To(Succeed())
	}
	for range 5 {
		add(trimmed)
	}
	first, second := add(uncertain), add(uncertain)
	readAll(trimmed)
	readAll(uncertain)
	d.Expect(client.XAck(t.Context(), uncertain, group, first, second).Err()).To(Succeed())
	d.Expect(client.XDel(t.Context(), uncertain, first).Err()).To(Succeed(), "the lag is uncertain from now on")
	read := d.counts(queue.Queue{Key: trimmed, Type: queue.Stream, Group: group}, queue.Queue{Key: uncertain, Type: queue.Stream, Group: group})
	d.eventually(read, 5, 0)
	d.Expect(client.XTrimMaxLen(t.Context(), trimmed, 2).Err()).To(Succeed())
	d.eventually(read, 2, 0)

	move := must.Get(s.BeginMigration(t.Context(), trimmed, must.Get(s.NotOwner(t.Context(), trimmed))(d)))(d)
	d.Expect(move.MoveKeys(t.Context())).To(Succeed())
	d.eventually(read, 2, 0)
	d.never(read, 2, 0)
	add(uncertain)
	d.eventually(read, 2, 1)
	d.Expect(move.End(t.Context())).To(Succeed())
	d.eventually(read, 2, 1)
}

// Keys are read from the masters that have them, also while their slot is being moved: before, while only one of the
// two nodes has the key, and after.
func TestKeysOfAClusterAreReadWhereTheyAre(t *testing.T) {
	t.Parallel()
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	d := newDeployed(t, auth.ModeCluster, s.Nodes[0].Addr())
	client := clusterClient(t, s)
	push := func(key string) { d.Expect(client.LPush(t.Context(), key, "message").Err()).To(Succeed()) }
	for _, key := range []string{"a", "b", "b", "{c}waiting", "{c}waiting", "{c}waiting", "{c}busy"} {
		push(key)
	}
	spread := d.counts(queue.Queue{Key: "a"}, queue.Queue{Key: "b", InProgress: true}, queue.Queue{Key: "{c}waiting"},
		queue.Queue{Key: "{c}busy", InProgress: true}, queue.Queue{Key: "absent"})
	d.eventually(spread, 1, 2, 3, 1, 0)

	to := must.Get(s.NotOwner(t.Context(), "{c}waiting"))(d)
	move := must.Get(s.BeginMigration(t.Context(), "{c}waiting", to))(d)
	d.eventually(spread, 1, 2, 3, 1, 0)
	push("{c}new") // It does not exist where the slot is, so it is made where the slot goes to.
	some := d.counts(queue.Queue{Key: "{c}waiting"}, queue.Queue{Key: "{c}new", InProgress: true})
	d.eventually(some, 3, 1)
	one := d.counts(queue.Queue{Key: "{c}new"})
	d.eventually(one, 1)
	d.never(some, 3, 1)

	// The operator is the user default.
	d.Expect(to.Client().Do(t.Context(), "acl", "setuser", "default", "-asking").Err()).To(Succeed())
	_, err := one()
	d.Expect(failure.Classify(err)).To(And(
		HaveField("Reason", failure.ReasonPermissionDenied), HaveField("Message", ContainSubstring("+asking"))))
	d.Expect(to.Client().Do(t.Context(), "acl", "setuser", "default", "+asking").Err()).To(Succeed())

	d.Expect(move.MoveKeys(t.Context())).To(Succeed())
	d.eventually(some, 3, 1)
	d.Expect(move.End(t.Context())).To(Succeed())
	d.eventually(spread, 1, 2, 3, 1, 0)
	d.never(spread, 1, 2, 3, 1, 0)
}

// A master that sentinels have demoted answers as before. What it says is old, so it is not read any longer.
func TestADemotedMasterIsNotRead(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	d := newDeployed(t, auth.ModeSentinel, r.Sentinels[0].Addr())
	old := r.Servers[0]
	d.Expect(old.Client().LPush(t.Context(), "emails", 1, 2).Err()).To(Succeed())
	read := d.counts(queue.Queue{Key: "emails"})
	both := d.counts(queue.Queue{Key: "emails"}, queue.Queue{Key: "{emails}busy", InProgress: true})
	d.eventually(read, 2)
	d.eventually(both, 2, 0)

	// Behind the back of the sentinel, which goes on to name it. A replica of nothing keeps its data, and answers.
	d.Expect(r.Sentinels[0].Client().Do(t.Context(), "sentinel", "set", redistest.MasterName, "down-after-milliseconds", "60000").Err()).To(Succeed())
	d.Expect(old.Client().Do(t.Context(), "replicaof", "127.0.0.1", "1").Err()).To(Succeed())
	for _, each := range []func() ([]int64, error){read, both} { // A single read, and a transaction.
		fails := func() error {
			_, err := each()
			return err
		}
		d.Consistently(fails).WithTimeout(timeout / 60).Should(HaveOccurred())
		d.Eventually(fails).WithTimeout(timeout).Should(MatchError(failure.ErrNotMaster))
	}
	length := must.Get(old.Client().LLen(t.Context(), "emails").Result())(d)
	d.Expect(length).To(BeEquivalentTo(2), "the control: it answers")
	d.Expect(old.Client().Do(t.Context(), "replicaof", "no", "one").Err()).To(Succeed())
	d.eventually(read, 2)
}

// places is a directory with a server for each key.
type places map[string]auth.Endpoint

func (p places) Route(_ auth.Endpoint, key string) (topology.Route, error) {
	return topology.Route{Owner: p[key]}, nil
}

func (places) Refresh(context.Context, auth.Endpoint) { /* nothing moves */ }

func (places) About(_, _ auth.Endpoint, err error) error { return err }

// changing is a directory whose routes are these, one after the other, and then the last one.
type changing struct {
	places

	routes []topology.Route
}

func (c *changing) Route(auth.Endpoint, string) (topology.Route, error) {
	is := c.routes[0]
	c.routes = c.routes[min(1, len(c.routes)-1):]
	if is.Owner == (auth.Endpoint{}) {
		return is, failure.ErrBusy
	}
	return is, nil
}

// The operator is stopped between the moment at which it knows where a queue is and the read. Meanwhile another server
// becomes the master.
func TestAReadCountsOnlyIfTheQueueIsStillThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, after := redistest.New(t, redistest.Options{}), redistest.New(t, redistest.Options{})
	g.Expect(before.Client().LPush(t.Context(), "emails", "lost", "lost").Err()).To(Succeed())
	g.Expect(after.Client().LPush(t.Context(), "emails", "kept").Err()).To(Succeed())
	pool := startPool(t)
	source := queue.Source{
		Endpoint: auth.Endpoint{Mode: auth.ModeSentinel, Address: "sentinel:1"}, Queues: []queue.Queue{{Key: "emails"}}, CountLimit: countLimit,
	}
	at := func(server *redistest.Server) topology.Route {
		owner := auth.Endpoint{Address: server.Addr()}
		g.Expect(pool.Claim("team", server.Addr(), owner, 0)).To(Succeed())
		return topology.Route{Owner: owner}
	}
	observe := func(routes ...topology.Route) ([]queue.Count, error) {
		directory := &changing{places{}, routes}
		return queue.NewReader(pool, directory).Observe(t.Context(), source)
	}
	g.Eventually(func() ([]queue.Count, error) { return observe(at(before)) }).Should(HaveExactElements(HaveField("Waiting", int64(2))))
	g.Eventually(func() ([]queue.Count, error) { return observe(at(before), at(after)) }).Should(HaveExactElements(HaveField("Waiting", int64(1))))
	g.Expect(observe(at(before), topology.Route{})).Error().To(MatchError(failure.ErrBusy))
}

// A message that is waiting on the old master may be in progress on the new one. It must not count twice.
func TestQueuesAreReadFromOneServerWhileTheMasterIsReplaced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	old, next := redistest.New(t, redistest.Options{}), redistest.New(t, redistest.Options{})
	g.Expect(old.Client().LPush(t.Context(), "waiting", 1).Err()).To(Succeed())
	g.Expect(next.Client().LPush(t.Context(), "working", 1).Err()).To(Succeed())
	at := places{"waiting": {Address: old.Addr()}, "working": {Address: next.Addr()}}
	counts, err := queue.NewReader(startPool(t), at).Observe(t.Context(), queue.Source{
		Endpoint: auth.Endpoint{Mode: auth.ModeSentinel}, Queues: []queue.Queue{{Key: "waiting"}, {Key: "working", InProgress: true}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(counts[0].Waiting + counts[1].InProgress).To(BeEquivalentTo(1))
}

// Servers that are slow, but not slow enough to be marked down, hold up a worker for a limited time altogether.
func TestManySlowServersHoldUpAReadForALimitedTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const servers, delay = 8, 400 * time.Millisecond // Together they take longer than it may.
	at, queues := places{}, []queue.Queue{}
	var asked atomic.Int32
	for i := range servers {
		server := redistest.NewScripted(t, func(args []string) string {
			if args[0] != "llen" {
				return redistest.Usual
			}
			asked.Add(1)
			<-time.After(delay)
			return ":1\r\n"
		})
		key := fmt.Sprintf("queue-%d", i)
		at[key] = auth.Endpoint{Address: server.Addr()}
		queues = append(queues, queue.Queue{Key: key})
	}
	_, err := observeAt(t, at, queues...)
	g.Expect(asked.Load()).To(BeNumerically("<", servers))
	g.Expect(failure.Classify(err)).To(And(HaveField("Reason", failure.ReasonUnreachable), HaveField("Message", ContainSubstring("takes too long"))))
}

// moving is a directory with two servers that a slot moves between.
func moving(from, to *redistest.Scripted) *changing {
	return &changing{places{}, []topology.Route{{
		Owner: auth.Endpoint{Address: from.Addr()}, Importing: auth.Endpoint{Address: to.Addr()},
	}}}
}

// observeAt reads queues of a Cluster where a directory says that they are.
func observeAt(t *testing.T, at queue.Directory, queues ...queue.Queue) ([]queue.Count, error) {
	t.Helper()
	source := queue.Source{Endpoint: auth.Endpoint{Mode: auth.ModeCluster}, Queues: queues}
	return queue.NewReader(startPool(t), at).Observe(t.Context(), source)
}

// A replica takes over from a master that moves a slot. The old master then answers MOVED, not ASK, and the node that
// the slot was to be moved to never had this key.
func TestMovedIsNotAsk(t *testing.T) {
	t.Parallel()
	old := redistest.NewScripted(t, redistest.Replies{"llen": "-MOVED 1 127.0.0.1:1\r\n"}.Script)
	importing := redistest.NewScripted(t, redistest.Replies{"asking": "+OK\r\n"}.Script) // It has an empty list.
	counts, err := observeAt(t, moving(old, importing), queue.Queue{Key: "emails"})
	NewWithT(t).Expect(failure.Classify(err)).To(And(HaveField("Reason", failure.ReasonUnreachable),
		HaveField("Message", ContainSubstring("is moving the slot of a key"))), "%v", counts)
}

// A worker takes a message from a slot that also has messages in progress, to a key of another slot. As the slots are
// not read at the same moment, the message may then count nowhere, but not twice.
func TestAMessageThatIsTakenToAnotherSlotDoesNotCountTwice(t *testing.T) {
	t.Parallel()
	const busy, waits, elsewhere = "{a}busy", "{a}waiting", "{b}busy"
	g := NewWithT(t)
	var taken atomic.Bool
	mixed := redistest.NewScripted(t, func(args []string) string {
		switch args[0] {
		case "multi":
			return "+OK\r\n"
		case "llen":
			return "+QUEUED\r\n"
		case "exec": // Just after it, a worker takes the message that waits.
			if taken.Swap(true) {
				return "*2\r\n:0\r\n:0\r\n"
			}
			return "*2\r\n:0\r\n:1\r\n"
		}
		return redistest.Usual
	})
	other := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "llen" && taken.Load() {
			return ":1\r\n"
		}
		return redistest.Usual
	})
	at := places{busy: {Address: mixed.Addr()}, waits: {Address: mixed.Addr()}, elsewhere: {Address: other.Addr()}}
	counts := must.Get(observeAt(t, at, inProgress(busy), inProgress(elsewhere), waiting(waits)))(g)
	g.Expect(queue.Counts(counts).Outstanding()).To(BeNumerically("<=", 1))
}

// Both lists are already on the node that their slot is moved to. A worker takes the message that waits there, just
// after the first read.
func TestAMessageThatIsTakenWhileItsSlotMovesDoesNotCountTwice(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var taken atomic.Bool
	const elsewhere = "-ASK 1 127.0.0.1:1\r\n"
	old := redistest.NewScripted(t, redistest.Replies{"multi": "+OK\r\n", "llen": elsewhere, "exec": elsewhere}.Script)
	importing := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] == "asking":
			return "+OK\r\n"
		case args[0] != "llen":
			return redistest.Usual
		case taken.Swap(true) == (args[1] == "{a}busy"):
			return ":1\r\n"
		}
		return ":0\r\n"
	})
	counts := must.Get(observeAt(t, moving(old, importing), waiting("{a}waiting"), inProgress("{a}busy")))(g)
	g.Expect(queue.Counts(counts).Outstanding()).To(BeNumerically("<=", 1))
}
