// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// workersAtOnce is the number of workers of manyScaledJobs, as by default.
const workersAtOnce = 32

// The kinds of requests of manyScaledJobs.
const (
	creating = "create"
	checking = "dry run"
	deleting = "delete"
	applying = "status"
)

// exchange is the beginning or the end of a request to the API server.
type exchange struct {
	kind  string
	of    types.NamespacedName // the ScaledJob
	ended bool
}

// manyScaledJobs is a fakeEnv with many ScaledJobs, behind the work queue and the workers of controller-runtime. It
// runs in a bubble of testing/synctest.
type manyScaledJobs struct {
	*fakeEnv

	mu  sync.Mutex
	log []exchange
	// onRequest is called for each write to the API server before it is carried out.
	onRequest func(ctx context.Context, kind string, of types.NamespacedName) error
}

// newManyScaledJobs starts the workers, of which each namespace has its share of this many.
func newManyScaledJobs(t *testing.T, shared int, objects ...client.Object) *manyScaledJobs {
	t.Helper()
	f := &manyScaledJobs{fakeEnv: newFakeEnv(t, objects...)}
	f.onRequest = func(context.Context, string, types.NamespacedName) error { return nil }
	f.r.Watcher, f.r.Servers, f.r.Recorder = deafWatcher{}, manyServers{}, silence{}
	f.r.Client = interceptor.NewClient(f.r.Client.(client.WithWatch), interceptor.Funcs{
		Create: f.createJob, Delete: f.deleteJob, SubResourceApply: f.apply,
	})
	f.r.Statuses.Client = f.r.Client
	f.start(t, shared)
	return f
}

// start runs the controller until the test ends.
func (f *manyScaledJobs) start(t *testing.T, shared int) {
	t.Helper()
	loop, err := controller.NewUnmanaged("many", controller.Options{
		Reconciler:              f.r,
		MaxConcurrentReconciles: workersAtOnce,
		ReconciliationTimeout:   reconcileTimeout,
		RateLimiter:             enqueue.RateLimiter(),
		NewQueue:                enqueue.NewQueue(shared, f.r.Metrics.Parked),
		SkipNameValidation:      new(true),
		Logger:                  logr.Discard(),
	})
	f.Expect(err).NotTo(HaveOccurred())
	for _, each := range []source.Source{f.r.Wakes.Source(), f.r.Gate.Takeover()} {
		f.Expect(loop.Watch(each)).To(Succeed())
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- loop.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		f.Expect(<-ended).To(Succeed())
	})
}

// request carries out a request, and notes its beginning and its end.
func (f *manyScaledJobs) request(ctx context.Context, kind string, of types.NamespacedName, send func() error) error {
	f.note(exchange{kind, of, false})
	defer f.note(exchange{kind, of, true})
	f.mu.Lock()
	onRequest := f.onRequest
	f.mu.Unlock()
	if err := onRequest(ctx, kind, of); err != nil {
		return err
	}
	return send()
}

func (f *manyScaledJobs) note(happened exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, happened)
}

func (f *manyScaledJobs) createJob(
	ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption,
) error {
	kind := creating
	if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		kind = checking
	}
	return f.request(ctx, kind, ownerOf(object), func() error { return c.Create(ctx, object, opts...) })
}

func (f *manyScaledJobs) deleteJob(
	ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption,
) error {
	job, err := f.job(object.GetName())
	if err != nil {
		return err
	}
	return f.request(ctx, deleting, ownerOf(job), func() error { return c.Delete(ctx, object, opts...) })
}

func (f *manyScaledJobs) apply(
	ctx context.Context, c client.Client, subresource string, status runtime.ApplyConfiguration,
	opts ...client.SubResourceApplyOption,
) error {
	of := client.ObjectKeyFromObject(status.(client.Object))
	return f.request(ctx, applying, of, func() error { return c.SubResource(subresource).Apply(ctx, status, opts...) })
}

func ownerOf(job client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: job.GetNamespace(), Name: job.GetLabels()[scaledjobv1.LabelScaledJob]}
}

// inFlight returns how many ScaledJobs of a namespace have requests of this kind in flight. Each takes a worker.
func (f *manyScaledJobs) inFlight(kind, namespace string) int { return len(f.open(kind, namespace)) }

// requestsInFlight returns how many requests of this kind are in flight in the namespace, a whole batch of creates
// counted one by one.
func (f *manyScaledJobs) requestsInFlight(kind, namespace string) (requests int) {
	for _, open := range f.open(kind, namespace) {
		requests += open
	}
	return requests
}

// open returns the number of requests of this kind in flight in the namespace, by ScaledJob.
func (f *manyScaledJobs) open(kind, namespace string) map[types.NamespacedName]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := map[types.NamespacedName]int{}
	for _, each := range f.log {
		switch {
		case each.kind != kind || each.of.Namespace != namespace:
		case each.ended:
			open[each.of]--
		default:
			open[each.of]++
		}
	}
	maps.DeleteFunc(open, func(_ types.NamespacedName, requests int) bool { return requests == 0 })
	return open
}

func (f *manyScaledJobs) ended(namespace string) (ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, each := range f.log {
		if each.of.Namespace == namespace && each.ended {
			ended++
		}
	}
	return ended
}

func (f *manyScaledJobs) on(request func(ctx context.Context, kind string, of types.NamespacedName) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onRequest = request
}

// push puts messages into the queue of a ScaledJob, and reports it like the watcher.
func (f *manyScaledJobs) push(_ context.Context, of types.NamespacedName, depth int64) {
	f.queues.SetDepth(of.String(), depth)
	f.r.Wakes.Deliver(coalesce.Wake{ID: coalesce.ID(of), Cause: coalesce.Growth})
}

// look asks for a reconcile, like the watcher when it has subscribed.
func (f *manyScaledJobs) look(_ context.Context, of types.NamespacedName) {
	f.r.Wakes.Deliver(coalesce.Wake{ID: coalesce.ID(of), Cause: coalesce.Confirmed})
}

// settled lets everything happen that happens without time passing.
func settled() { synctest.Wait() }

// scaledJobsIn returns ScaledJobs of a namespace, each with an empty queue of its own.
func scaledJobsIn(namespace string, size int) []client.Object {
	all := make([]client.Object, size)
	for i := range all {
		sj := scaledJob()
		sj.Namespace, sj.Name = namespace, fmt.Sprintf("%s-%d", namespace, i)
		sj.UID = types.UID("uid of " + sj.Name)
		sj.Spec.QueueName = client.ObjectKeyFromObject(sj).String()
		all[i] = sj
	}
	return all
}

func (f *manyScaledJobs) jobsOf(of types.NamespacedName) int {
	owned, err := f.r.Cache.Owned(of.Namespace, types.UID("uid of "+of.Name))
	f.Expect(err).NotTo(HaveOccurred())
	return len(owned)
}

// hangs waits until the sender gives up, or for this long.
func hangs(ctx context.Context, limit time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(limit):
		return nil
	}
}

// deafWatcher is a watcher for many ScaledJobs that hears nothing.
type deafWatcher struct{}

func (deafWatcher) Ensure(keyspace.ID, auth.Endpoint, keyspace.Sources, ...keyspace.Key) {}
func (deafWatcher) Forget(keyspace.ID)                                                   {}
func (deafWatcher) SetIdle(keyspace.ID, bool)                                            {}
func (deafWatcher) Acknowledge(keyspace.ID) time.Time                                    { return time.Time{} }

func (deafWatcher) Observed(keyspace.ID, string, int64, time.Time) bool { return false }

func (deafWatcher) State(keyspace.ID) keyspace.State {
	return keyspace.State{Verdict: verify.Verdict{Reason: verify.ReasonSubscribed}}
}

// manyServers lets everybody use every server.
type manyServers struct{}

func (manyServers) Claim(string, string, auth.Endpoint, int, ...string) error { return nil }
func (manyServers) Release(string, string)                                    {}
func (manyServers) Rejected(auth.Endpoint) *failure.Error                     { return nil }
func (manyServers) CertificatesExpire(auth.Endpoint) (never time.Time)        { return never }
func (manyServers) Replica(auth.Endpoint) bool                                { return false }

type silence struct{}

func (silence) AnnotatedEventf(runtime.Object, runtime.Object, map[string]string, string, string, string, string, ...any) {
}
