// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller reconciles ScaledJobs: it creates Jobs according to the depth of Redis queues.
//
// A reconcile runs these steps, each in its own file:
//
//	load.go        reads the ScaledJob from the cache
//	subscribe.go   subscribes to notifications for its keys; shared.go finds keys that others name too
//	observe.go     counts the owned Jobs, then reads the queues
//	pause.go       updates the pause of creation
//	decide.go      compares the due Jobs with the owned Jobs
//	scale.go       creates the missing Jobs
//	rollout.go     sends the dry run of the template, and selects the Jobs of an earlier template to replace
//	prune.go       deletes those, and finished Jobs beyond the history limits
//	report.go      writes status, events and metrics; age.go has the ages of messages
//	requeue.go     returns when to reconcile again
//
// memory.go has the state that is kept between reconciles, and cache.go reads the cache. setup.go adds the controller
// to a manager. Package enqueue requests reconciles.
//
// A reconcile does not know what triggered it. Notifications, finished Jobs, edits and the resync all add the same
// request to the work queue, and the decision depends only on what the reconcile observes.
package controller

import (
	"context"
	"time"

	"golang.org/x/time/rate"
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
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// depthReader reads the content of queues, in the order of the source. After an error the depth is unknown, which is
// not the same as 0.
type depthReader interface {
	Observe(ctx context.Context, source queue.Source) ([]queue.Count, error)
	// Oldest returns since when the oldest message of each queue is outstanding; zero if that can't be known. Where Redis
	// does not answer, it keeps the time from before, and returns false.
	Oldest(ctx context.Context, source queue.Source, counts []queue.Count, before []time.Time) ([]time.Time, bool)
}

// cacheReader reads what informers have cached. The objects belong to the cache and must not be changed.
type cacheReader interface {
	// ScaledJob returns a ScaledJob; nil if it does not exist.
	ScaledJob(key types.NamespacedName) (*scaledjob.ScaledJob, error)
	// Owned returns the Jobs that an object controls.
	Owned(namespace string, owner types.UID) ([]*batchv1.Job, error)
}

// watcher receives keyspace notifications. No call blocks.
type watcher interface {
	// Ensure makes id watch these keys, and no others, with these sources of events.
	Ensure(id keyspace.ID, endpoint auth.Endpoint, from keyspace.Sources, keys ...keyspace.Key)
	// Forget ends the subscriptions of id.
	Forget(id keyspace.ID)
	// SetIdle sets whether the next reconcile could create no Job. Wake-ups of idle ScaledJobs are less frequent.
	SetIdle(id keyspace.ID, idle bool)
	// Acknowledge says that the wake-ups until now are handled: the queues are read after this. It returns when the first
	// growth since the last call was notified; zero if none was.
	Acknowledge(id keyspace.ID) (notified time.Time)
	// Observed reports a depth that was read between began and now. It returns true if the key grew without a
	// notification.
	Observed(id keyspace.ID, key string, depth int64, began time.Time) (missed bool)
	// State returns what is known about the notifications for the keys.
	State(id keyspace.ID) keyspace.State
}

// servers tracks which ScaledJob uses which Redis server. No call blocks.
type servers interface {
	// Claim records that a ScaledJob uses these keys in this database of this server, and no other. It returns an
	// [*failure.Error] if the namespace uses too many servers.
	Claim(namespace, name string, endpoint auth.Endpoint, database int, keys ...string) error
	// Release records that the ScaledJob uses no server.
	Release(namespace, name string)
	// Rejected returns the error with which a server in use rejects the current values of the Secrets; nil if it
	// accepts them.
	Rejected(endpoint auth.Endpoint) *failure.Error
	// CertificatesExpire returns when the first of the certificates in the Secrets of the endpoint expires; zero if there
	// is none.
	CertificatesExpire(endpoint auth.Endpoint) time.Time
	// Replica reports whether the server said that it is a replica.
	Replica(endpoint auth.Endpoint) bool
}

// Reconciler creates and deletes Jobs until each ScaledJob has the desired number of Jobs.
type Reconciler struct {
	// Cache has ScaledJobs and Jobs. Client writes to the API server, and Live reads from it.
	Cache  cacheReader
	Client client.Client
	Live   client.Reader
	// Servers tracks the Redis servers in use, Queues reads queues from them, and Watcher receives their notifications.
	Servers servers
	Queues  depthReader
	Watcher watcher
	// Gate knows whether the cache shows all of this process' own writes.
	Gate *jobcontrol.Gate
	// Statuses writes the statuses, Recorder the events, and Metrics has the metrics.
	Statuses *report.StatusWriter
	Recorder events.AnnotatedEventRecorder
	Metrics  *metrics.Metrics
	// FallbackInterval is how often a queue is read while it is not verified that Redis sends notifications. 0 means
	// that the polling interval applies.
	FallbackInterval time.Duration

	// Leads reports whether this process is certainly the leader. While it is not, another replica may be the leader.
	Leads func() bool
	// Wakes carries requests for reconciles from the watcher.
	Wakes *enqueue.Wakes

	memories memories
	// limiter bounds the creates and deletes of Jobs of each namespace that are under way.
	limiter  jobcontrol.Limiter
	patience jobcontrol.Patience
	// denied limits how often it is logged that statuses may not be written.
	denied rate.Sometimes
}

// target is the subject of one reconcile: the ScaledJob, its resolved spec, and its memory.
type target struct {
	sj   *scaledjobv1.ScaledJob
	spec scaledjob.Resolved
	mem  *memory
	// template is the template of the Jobs, which sj does not have.
	template scaledjob.Template
	// reconcile is the ID of the reconcile, which is in its log lines.
	reconcile types.UID
}

// key returns the namespace and name of the ScaledJob.
func (t target) key() types.NamespacedName { return client.ObjectKeyFromObject(t.sj) }

// withTemplate returns the ScaledJob with the template of its Jobs, to make Jobs of.
func (t target) withTemplate() (*scaledjobv1.ScaledJob, error) {
	decoded, err := t.template.Decode()
	if err != nil {
		return nil, err
	}
	filled := *t.sj
	filled.Spec.JobTemplate = decoded
	return &filled, nil
}

// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs/status,verbs=patch
// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one ScaledJob to its desired number of Jobs. Each step has its own file in this package.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	t, stop := r.load(ctx, request.NamespacedName) // 1. load.go
	if stop != nil {
		return stop.result, stop.err
	}
	serverErr := r.subscribe(t)                // 2. subscribe.go
	seen, stop := r.observe(ctx, t, serverErr) // 3. observe.go: first the Jobs, then the queues
	if stop != nil {
		return stop.result, stop.err
	}
	r.updatePause(t, seen) // 4. pause.go
	plan := t.decide(seen) // 5. decide.go

	created := r.scale(ctx, t, seen, plan)                           // 6. scale.go
	checked := r.checkTemplate(ctx, t, seen, plan, created)          // 7. rollout.go
	deleted := r.prune(ctx, t, seen, plan, created, checked)         // 8. prune.go
	wait := r.report(ctx, t, seen, plan, created, checked, deleted)  // 9. report.go
	return r.requeue(t, seen, plan, created, checked, deleted, wait) // 10. requeue.go
}

// stop ends a reconcile before it has decided: with an error, or with a result that says when to reconcile again.
type stop struct {
	result ctrl.Result
	err    error
}

// stopFor returns the end of a reconcile that is to be repeated after a delay.
func stopFor(delay time.Duration, class int) *stop { return &stop{result: enqueue.After(delay, class)} }

// fail ends a reconcile that could not make an observation.
func (r *Reconciler) fail(sj *scaledjobv1.ScaledJob, err error) *stop {
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	return &stop{enqueue.After(0, enqueue.PriorityNormal), err}
}
