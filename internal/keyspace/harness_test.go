// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"flag"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// timeout is how long a test waits for something that has to happen.
const timeout = 30 * time.Second

// atOnce is how many tests run at the same time. They wait more than they work.
const atOnce = 16

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	connection.RedirectLogs(logr.Discard())
	goleak.VerifyTestMain(m)
}

// harness is a watcher that runs, and what it delivered.
type harness struct {
	*Watcher
	Gomega
	t        *testing.T
	pool     *connection.Pool
	endpoint auth.Endpoint
	reader   *queue.Reader

	mu    sync.Mutex
	wakes []coalesce.Wake
	// seen is the depth read at the last wake of each id, whose name is the key.
	seen map[string]int64
}

// newHarness runs a watcher of the server at address until the test ends. Prepare may change
// it before.
func newHarness(t *testing.T, address string, prepare ...func(*Watcher)) *harness {
	t.Helper()
	endpoint, err := auth.ParseEndpoint(address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return newHarnessOn(t, endpoint, connection.Options{}, prepare...)
}

// newHarnessOn is newHarness with a pool made of these options.
func newHarnessOn(
	t *testing.T, endpoint auth.Endpoint, options connection.Options, prepare ...func(*Watcher),
) *harness {
	t.Helper()
	pool := connection.NewPool(options)
	h := &harness{
		Gomega: NewWithT(t), t: t, pool: pool, endpoint: endpoint,
		reader: queue.NewReader(pool), seen: map[string]int64{},
	}
	h.Watcher = New(Options{Pool: pool, Deliver: h.deliver, Log: logr.Discard()})
	for _, change := range prepare {
		change(h.Watcher)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	running.Go(func() { _ = h.Start(t.Context()) })
	t.Cleanup(running.Wait)
	return h
}

// deliver does what a reconciler would: it reads, again if that failed.
func (h *harness) deliver(ctx context.Context, w coalesce.Wake) {
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

// read returns how long a list is.
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
		if w == (coalesce.Wake{ID: named(id), Cause: cause}) {
			n++
		}
	}
	return n
}

// depth returns what was read at the last wake of id.
func (h *harness) depth(id string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[id]
}

// named is an id of this name.
func named(name string) ID { return ID{Name: name} }

// Ensure is that of the watcher, by the name of an id. So are the methods below.
func (h *harness) Ensure(name string, e auth.Endpoint, keys ...Key) {
	h.Watcher.Ensure(named(name), e, keys...)
}

func (h *harness) Forget(name string) { h.Watcher.Forget(named(name)) }

func (h *harness) State(name string) State { return h.Watcher.State(named(name)) }

func (h *harness) Observed(name, key string, depth int64, began time.Time) bool {
	return h.Watcher.Observed(named(name), key, depth, began)
}

// list is a key that is meant to hold a list.
func list(name string) Key { return Key{Name: name, Class: verify.ClassList, Final: true} }

// ensure watches lists, each by an id of the same name, and waits until all are.
func (h *harness) ensure(keys ...string) {
	h.t.Helper()
	for _, key := range keys {
		h.Ensure(key, h.endpoint, list(key))
	}
	for _, key := range keys {
		h.eventuallyWoken(key, coalesce.Confirmed, 1)
	}
}

// eventuallyWoken waits until an id was woken by a cause so many times.
func (h *harness) eventuallyWoken(id string, cause coalesce.Cause, times int) {
	h.t.Helper()
	h.Eventually(h.count).WithArguments(id, cause).
		WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeNumerically(">=", times), id)
}

// eventually waits until a wake of id has read depth.
func (h *harness) eventually(id string, depth int64) {
	h.t.Helper()
	h.Eventually(h.depth).WithArguments(id).
		WithTimeout(timeout).WithPolling(time.Millisecond).Should(Equal(depth), id)
}

// must expects that a command succeeds.
func must(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	NewWithT(t).Expect(cmd.Err()).NotTo(HaveOccurred())
}

// do runs a command on the server.
func do(t *testing.T, server *redistest.Server, args ...any) {
	t.Helper()
	must(t, server.Client().Do(t.Context(), args...))
}

// channelPrefix makes a channel of a key in database 0.
const channelPrefix = "__keyspace@0__:"
