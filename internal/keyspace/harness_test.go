// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"flag"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// timeout is how long a test waits for something that must happen.
const timeout = 4 * time.Minute

// atOnce is how many tests run at the same time, unless the flag -parallel says otherwise. They mostly wait.
const atOnce = 16

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// harness is a running watcher and the wakes that it delivered.
type harness struct {
	*Watcher
	Gomega
	t         *testing.T
	pool      *connection.Pool
	directory *topology.Directory
	endpoint  auth.Endpoint
	reader    *queue.Reader
	recorded  *recorded
	// inbox has the wakes. serve is called for each of them.
	inbox *inbox
	serve func(ctx context.Context, w coalesce.Wake)

	mu    sync.Mutex
	wakes []coalesce.Wake
	// seen has the depth that was read at the last wake of each id. The id has the name of the key.
	seen map[string]int64
	// verdicts has the verdict at the last wake of each id, see judging.
	verdicts map[string]verify.Verdict
}

// recorded is what a watcher has recorded.
type recorded struct {
	*metrics.Metrics              // what a test does not look at
	received         atomic.Int64 // notifications
	subscribed       atomic.Bool
	ended            atomic.Int32 // subscriptions that the server had confirmed
	trackings        atomic.Int32 // sessions that tracked keys, since the start

	mu sync.Mutex
	// tracked has which databases are tracked, by their numbers.
	tracked map[int]bool
}

func newRecorded() *recorded {
	return &recorded{Metrics: metrics.New(prometheus.NewRegistry()), tracked: map[int]bool{}}
}

func (r *recorded) Received(string) func() { return func() { r.received.Add(1) } }

func (r *recorded) Subscribed(_ string, _ int, subscribed bool) {
	if r.subscribed.Swap(subscribed) && !subscribed {
		r.ended.Add(1)
	}
}

func (r *recorded) Tracked(_ string, database int, tracked bool) {
	if tracked {
		r.trackings.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracked[database] = tracked
}

func (r *recorded) Untracked(_ string, database int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tracked, database)
}

func (r *recorded) databases() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.tracked)
}

// newHarness runs a watcher of the server at address until the test ends. The prepare functions may change the harness
// before the watcher starts.
func newHarness(t *testing.T, address string, prepare ...func(*harness)) *harness {
	t.Helper()
	endpoint := must.Get(auth.ParseEndpoint(address))(NewWithT(t))
	return newHarnessOn(t, endpoint, connection.Options{}, prepare...)
}

// newServed runs a watcher of a new server until the test ends, which it runs in parallel with others.
func newServed(t *testing.T, options redistest.Options, prepare ...func(*harness)) (*harness, *redistest.Server) {
	t.Helper()
	t.Parallel()
	server := redistest.New(t, options)
	return newHarness(t, server.Addr(), prepare...), server
}

// newPiped runs a watcher of a scripted server in a synctest bubble, until the test in the bubble ends.
func newPiped(t *testing.T, script redistest.Script, prepare ...func(*harness)) *harness {
	t.Helper()
	dial := redistest.NewPiped(script).Dial
	return newHarnessOn(t, auth.Endpoint{Address: "redis:6379"}, connection.Options{Dial: dial}, prepare...)
}

// newHarnessOn is newHarness with a pool that has these options. A session waits for answers as long as a test does, so
// that it does not end because the machine is busy.
func newHarnessOn(
	t *testing.T, endpoint auth.Endpoint, options connection.Options, prepare ...func(*harness),
) *harness {
	t.Helper()
	pool := connection.NewPool(options)
	directory := topology.New(pool, logr.Discard())
	h := &harness{
		Gomega: NewWithT(t), t: t, pool: pool, directory: directory, endpoint: endpoint,
		reader: queue.NewReader(pool, directory), recorded: newRecorded(), inbox: newInbox(), seen: map[string]int64{},
	}
	h.SetDefaultEventuallyTimeout(timeout)
	h.serve = h.readAtWake
	h.Watcher = New(Options{Pool: pool, Directory: directory, Deliver: h.inbox.add, Recorder: h.recorded, Log: logr.Discard()})
	h.options.Timing.AnswerWithin = timeout
	for _, change := range prepare {
		change(h)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { _ = directory.Start(t.Context()) })
	running.Go(func() { _ = h.Start(t.Context()) })
	running.Go(func() { h.inbox.run(t.Context(), h.Watcher, h.serve) })
	t.Cleanup(running.Wait)
	return h
}

// readAtWake reads the key, as a reconciler does, and retries if the read fails.
func (h *harness) readAtWake(ctx context.Context, w coalesce.Wake) {
	h.mu.Lock()
	endpoint := h.endpoint
	h.mu.Unlock()
	depth, err := h.read(ctx, endpoint, w.ID.Name)
	for err != nil && ctx.Err() == nil {
		_ = h.pool.Conn(endpoint, 0).WaitUp(ctx)
		depth, err = h.read(ctx, endpoint, w.ID.Name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakes = append(h.wakes, w)
	h.seen[w.ID.Name] = depth
}

// read returns the length of a list.
func (h *harness) read(ctx context.Context, e auth.Endpoint, key string) (int64, error) {
	queues := []queue.Queue{{Key: key, Type: queue.List}}
	counts, err := h.reader.Observe(ctx, queue.Source{Endpoint: e, Queues: queues})
	if err != nil {
		return 0, err
	}
	return counts[0].Waiting, nil
}

// moveTo makes later wakes read from another server.
func (h *harness) moveTo(server *redistest.Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoint = auth.Endpoint{Address: server.Addr()}
}

// count returns how many wakes of id with this cause were delivered.
func (h *harness) count(id string, cause coalesce.Cause) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, w := range h.wakes {
		if w.ID == named(id) && w.Cause == cause {
			n++
		}
	}
	return n
}

// depth returns the depth that was read at the last wake of id.
func (h *harness) depth(id string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[id]
}

// named returns the id with this name.
func named(name string) ID { return ID{Name: name} }

// Ensure is [Watcher.Ensure] with the name of an id; the methods below are similar.
func (h *harness) Ensure(name string, e auth.Endpoint, keys ...Key) {
	if e.Mode != auth.ModeStandalone {
		h.Expect(h.directory.Claim("", name, e, 0)).To(Succeed())
	}
	h.Watcher.Ensure(named(name), e, AnySource, keys...)
}

// Track is Ensure without a subscription.
func (h *harness) Track(name string, e auth.Endpoint, keys ...Key) {
	h.Watcher.Ensure(named(name), e, OnlyTracking, keys...)
}

func (h *harness) Forget(name string) { h.Watcher.Forget(named(name)) }

func (h *harness) State(name string) State { return h.Watcher.State(named(name)) }

func (h *harness) Observed(name, key string, depth int64, began time.Time) bool {
	return h.Watcher.Observed(named(name), key, depth, began)
}

// list returns a key of the type list.
func list(name string) Key { return Key{Name: name, Class: verify.ClassList, Final: true} }

// ensure watches lists, each by an id of the same name, until all are confirmed.
func (h *harness) ensure(keys ...string) {
	h.t.Helper()
	h.watch(keys...)
	for _, key := range keys {
		h.eventuallyWoken(key, coalesce.Confirmed, 1)
	}
}

// verified is ensure, and waits until notifications are verified. From then on, the keys are not tracked as well.
func (h *harness) verified(keys ...string) {
	h.t.Helper()
	h.ensure(keys...)
	for _, key := range keys {
		h.eventuallyJudged(key, verify.ReasonSubscribed)
	}
}

func (h *harness) reason(id string) verify.Reason { return h.State(id).Reason }

func (h *harness) tracking(id string) verify.Tracking { return h.State(id).Tracking }

// eventuallyJudged waits for a verdict on the keys of an id.
func (h *harness) eventuallyJudged(id string, want verify.Reason) {
	h.t.Helper()
	h.Eventually(h.reason).WithArguments(id).WithPolling(time.Millisecond).Should(Equal(want), id)
}

// continues fails the test if a subscription that the server had confirmed has ended.
func (h *harness) continues() {
	h.t.Helper()
	h.Expect(h.recorded.ended.Load()).To(BeZero(), "the session continues")
}

// eventuallyWoken waits until an id was woken this many times by a cause.
func (h *harness) eventuallyWoken(id string, cause coalesce.Cause, times int) {
	h.t.Helper()
	h.Eventually(h.count).WithArguments(id, cause).WithPolling(time.Millisecond).Should(BeNumerically(">=", times), id)
}

// eventually waits until a wake of id has read this depth.
func (h *harness) eventually(id string, depth int64) {
	h.t.Helper()
	h.Eventually(h.depth).WithArguments(id).WithPolling(time.Millisecond).Should(Equal(depth), id)
}

// succeed fails the test if a command fails.
func succeed(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	NewWithT(t).Expect(cmd.Err()).NotTo(HaveOccurred())
}

// do runs a command on the server.
func do(t *testing.T, server *redistest.Server, args ...any) {
	t.Helper()
	succeed(t, server.Client().Do(t.Context(), args...))
}

// pause waits for a part of a test that has a pace, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// channelPrefix is the prefix of the channels of keys in database 0.
const channelPrefix = "__keyspace@0__:"
