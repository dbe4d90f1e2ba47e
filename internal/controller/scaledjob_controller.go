// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller turns the depth of queues into Jobs.
//
// A reconcile of a ScaledJob goes through these steps, each in a file of its own. It gathers, decides, acts and reports:
//
//	load.go        reads the ScaledJob, however it was stored
//	subscribe.go   tells the watcher which keys to listen to
//	observe.go     counts the owned Jobs, and then reads the queues     gather
//	pause.go       tells whether creating is of any use now
//	decide.go      compares the two                                     decide
//	scale.go       creates the missing Jobs                             act
//	rollout.go     has the template checked, and says which Jobs of an earlier template are to be replaced
//	prune.go       deletes those, and finished Jobs beyond the history limits
//	report.go      writes status, events and metrics                    report
//	requeue.go     says when to reconcile again
//
// memory.go holds what is kept from one reconcile to the next. setup.go adds the controller to a manager. Package enqueue asks for the
// reconciles.
//
// A reconcile never asks why it was called: a notification, a finished Job, an edit and the resync all put the same request on the same
// queue, and the decision follows from what is observed alone.
package controller

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// depthReader reads what queues hold, in their order. After an error all of it is unknown, which is not 0.
type depthReader interface {
	Observe(ctx context.Context, source queue.Source) ([]queue.Count, error)
}

// jobLister lists the Jobs in the cache that an object controls. They are the cache's own and must not be changed.
type jobLister interface {
	Owned(namespace string, owner types.UID) ([]*batchv1.Job, error)
}

// watcher listens for keyspace events. No call blocks.
type watcher interface {
	// Ensure listens to these keys on behalf of id, and to no other.
	Ensure(id keyspace.ID, endpoint auth.Endpoint, keys ...keyspace.Key)
	// Forget listens to nothing on behalf of id.
	Forget(id keyspace.ID)
	// SetIdle says whether the next reconcile could create no Job. Then wake-ups are fewer.
	SetIdle(id keyspace.ID, idle bool)
	// TakeNotified is when growth was first heard of since the last call; zero if it was not.
	TakeNotified(id keyspace.ID) time.Time
	// Observed tells of a depth that was read from began until now. It says whether growth turned out to be unannounced.
	Observed(id keyspace.ID, key string, depth int64, began time.Time) (missed bool)
	// State is what is known about the events of the keys.
	State(id keyspace.ID) keyspace.State
}

// servers keeps who uses which Redis server. No call blocks.
type servers interface {
	// Claim notes that a ScaledJob uses this database of this server, and no other. The error, an [*failure.Error], is for one too many.
	Claim(namespace, name string, endpoint auth.Endpoint, database int) error
	// Release notes that it uses none.
	Release(namespace, name string)
	// Rejected is why a server in use rejects what the Secrets hold now; nil if it does not.
	Rejected(endpoint auth.Endpoint) *failure.Error
}

// Reconciler brings ScaledJobs to their desired number of Jobs.
type Reconciler struct {
	// Client reads from the cache and writes to the API server; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Jobs lists the owned Jobs in the cache.
	Jobs jobLister
	// Servers are those that are in use, Queues reads depths there, and Watcher hears of their growth.
	Servers servers
	Queues  depthReader
	Watcher watcher
	// Gate knows whether the cache has caught up with this process' own writes.
	Gate     *jobcontrol.Gate
	Recorder events.EventRecorder
	Metrics  *metrics.Metrics
	// FallbackInterval is how often a depth is read while it is not proven that Redis announces growth. 0 means no sooner than the
	// polling interval.
	FallbackInterval time.Duration

	// Leads says whether this process leads for certain. While it does not, another may be at work.
	Leads func() bool
	// Wakes is where the watcher and the search for overdue ScaledJobs ask for reconciles.
	Wakes enqueue.Wakes

	memories  memories
	deadlines enqueue.Deadlines
	// templates has templates checked.
	templates *jobcontrol.DryRunner
	// patience is for reconciles whose creates take long, so that they leave most workers to others.
	patience *semaphore.Weighted
}

// target is what one reconcile is about: the ScaledJob, what its spec asks for, and what is remembered of it.
type target struct {
	sj   *scaledjobv1.ScaledJob
	asks scaledjob.Resolved
	mem  *memory
}

// key names the ScaledJob.
func (t target) key() types.NamespacedName { return client.ObjectKeyFromObject(t.sj) }

// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs/status,verbs=patch
// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one ScaledJob to its desired number of Jobs. Each step is a file of this package.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// 1. load.go
	t, result, err := r.load(ctx, request.NamespacedName)
	if t == nil {
		return result, err
	}
	if !r.Leads() {
		return enqueue.After(busyRetry, enqueue.PriorityNormal), nil
	}
	// 2. subscribe.go
	serverErr := r.subscribe(t)
	// 3. observe.go
	ready, err := r.Gate.Ready(ctx, t.sj.UID)
	if err != nil {
		return r.fail(t.sj, err)
	}
	if !ready {
		return enqueue.After(staleRetry, enqueue.PriorityNormal), nil
	}
	seen, err := r.observe(ctx, t, serverErr)
	if err != nil {
		return r.fail(t.sj, err)
	}
	// 4. pause.go
	paused := r.updatePause(t, seen)
	// 5. decide.go
	plan := decide(&t.asks, seen, t.sj.Spec.Suspend || paused)
	// 6. scale.go
	done := r.scale(ctx, t, seen, plan)
	// 7. rollout.go
	done.template = r.checkTemplate(ctx, t, seen)
	replaced := replaceable(t, seen, plan, done)
	// 8. prune.go
	done.pruned = r.prune(ctx, t, seen, replaced)
	// 9. report.go
	statusWait := r.report(ctx, t, seen, plan, done)
	// 10. requeue.go
	return r.requeue(t, seen, plan, done, statusWait)
}

// fail ends a reconcile that could not observe what it must go by.
func (r *Reconciler) fail(sj *scaledjobv1.ScaledJob, err error) (ctrl.Result, error) {
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	return enqueue.After(0, enqueue.PriorityNormal), err
}
