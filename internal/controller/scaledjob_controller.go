// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller turns the depth of queues into Jobs.
//
// One pass over a ScaledJob gathers, decides, acts and reports, each in a file of its own:
//
//	subscribe.go      tells the watcher which key to listen to
//	observe.go        reads the owned Jobs, and then what the queues hold         gather
//	pause.go          tells whether creating is of any use for now
//	decide.go         compares the two                                            decide
//	scale.go          creates what is missing                                     act
//	prune.go          deletes finished Jobs beyond the history limits, and those to be replaced
//	rollout.go        tells which Jobs of an earlier template are to be replaced
//	report.go         writes down what was seen and done                          report
//	requeue.go        tells when to look again
//	malformed.go      is for a ScaledJob that can't be read
//
// memory.go holds what is kept from one pass to the next. setup.go plugs all of it into a manager; package enqueue asks for
// the passes.
//
// A pass never asks why it was called: a notification, a finished Job, an edit and the resync all put the same request on the same
// queue, and what is decided follows from what is seen alone.
package controller

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// depthReader tells what queues hold, in their order. After an error all of it is unknown, which is not 0.
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
	Ensure(id types.NamespacedName, endpoint auth.Endpoint, keys ...keyspace.Key)
	// Forget listens to nothing on behalf of id.
	Forget(id types.NamespacedName)
	// Pace says that a pass is over, and whether the next one could create a Job. If not, wake-ups are fewer.
	Pace(id types.NamespacedName, canCreate bool)
	// TakeNotified is when growth was first heard of since the last call; zero if it was not.
	TakeNotified(id types.NamespacedName) time.Time
	// Observed tells of a depth that was read from began until now. It says whether growth turned out to be unannounced.
	Observed(id types.NamespacedName, key string, depth int64, began time.Time) (missed bool)
	// State is what is known about the events of the keys.
	State(id types.NamespacedName) keyspace.State
}

// servers keeps who uses which Redis server. No call blocks.
type servers interface {
	// Claim notes that a ScaledJob uses this database of this server, and no other. The error, an [*failure.Error], is for one too many.
	Claim(namespace, name string, endpoint auth.Endpoint, database int) error
	// Release notes that it uses none.
	Release(namespace, name string)
	// Rejected is why a server that is used does not take what the Secrets hold now; nil if it does.
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
	// Wakes is where the watcher and the search for overdue ScaledJobs ask for passes.
	Wakes enqueue.Wakes

	memories  memories
	deadlines enqueue.Deadlines
	// templates has templates checked.
	templates *jobcontrol.DryRunner
	// patience is for passes whose creates take long, so that they leave most workers to others.
	patience *semaphore.Weighted
}

// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs/status,verbs=patch
// +kubebuilder:rbac:groups=batch.miracle.dev,resources=scaledjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a ScaledJob. If it is gone or going, it is forgotten. If it can't be read, that is reported.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var found scaledjob.ScaledJob
	if err := r.Client.Get(ctx, request.NamespacedName, &found); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return enqueue.After(0, enqueue.PriorityNormal), err
	}
	sj := &found.ScaledJob
	if sj.DeletionTimestamp != nil || r.memories.ofAnother(sj) {
		r.forget(request.NamespacedName)
	}
	if sj.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	mem := r.memories.of(sj)
	r.deadlines.Expect(request.NamespacedName, time.Now().Add(3*sj.Spec.PollingInterval()/2))
	if found.StatusErr != nil && !mem.status.Written() {
		if err := r.statuses().Drop(ctx, sj); err != nil && found.SpecErr == nil {
			return r.fail(sj, err)
		}
	}
	if found.SpecErr != nil {
		return r.reportMalformed(ctx, sj, mem, found.SpecErr)
	}
	return r.pass(ctx, sj, mem)
}

// pass compares what is with what should be. If the Job cache has not caught up with our own writes, it ends until that has. Otherwise
// the Jobs are counted, the depth is read, missing Jobs are created, old ones pruned, and all of that is reported, errors included.
func (r *Reconciler) pass(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory) (ctrl.Result, error) {
	if !r.Leads() {
		return enqueue.After(busyRetry, enqueue.PriorityNormal), nil
	}
	serverErr := r.subscribe(sj)
	ready, err := r.Gate.Ready(ctx, sj.UID)
	if err != nil {
		return r.fail(sj, err)
	}
	if !ready {
		return enqueue.After(staleRetry, enqueue.PriorityNormal), nil
	}
	seen, err := r.observe(ctx, sj, mem, serverErr)
	if err != nil {
		return r.fail(sj, err)
	}
	plan := decide(&sj.Spec, seen, r.pausing(sj, mem, seen))
	done := r.act(ctx, sj, mem, seen, plan)
	return r.report(ctx, sj, mem, seen, plan, done)
}

// outcome is what a pass did.
type outcome struct {
	// created is how many Jobs were created.
	created int
	// createFailing says that creating a Job failed without an answer that refuses it, and did not fail in the pass before.
	createFailing bool
	// refusal is the answer of the API server that refused a Job. It is no error to come again for: the pause tells when to.
	refusal error
	// limit is why creating pauses.
	limit scaling.PauseReason
	// more says that the pass stopped before all was done, to let others have a turn, and crowded that creating waits for its turn.
	more, crowded bool
	// template is what the API server says of the template, and nil where it was not asked.
	template *report.Condition
	// replaced says that Jobs of an earlier template were deleted.
	replaced bool
	// err is why creating failed, and pruneErr why pruning did.
	err, pruneErr error
}

// act creates Jobs, has the template checked, and deletes Jobs after that. One failing does not keep the others from being tried.
func (r *Reconciler) act(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan) outcome {
	failedBefore := mem.createFailed
	created, moreJobs, createErr := r.scale(ctx, sj, mem, seen, plan)
	done := outcome{created: created, err: ignoring(createErr, errCrowded), more: moreJobs, crowded: errors.Is(createErr, errCrowded)}
	if mem.noteCreates(created, createErr) {
		ctrl.LoggerFrom(ctx).Error(createErr, "the API server refuses to create a Job")
		done.refusal, done.err, done.more = createErr, nil, false
	}
	done.createFailing = done.err != nil && mem.createFailed && !failedBefore
	done.limit = mem.pause.Reason(time.Now())
	sent, answer := r.templates.DryRun(ctx, sj, &mem.template, mem.status.Latest(sj).Conditions)
	switch {
	case sent:
		done.template = report.Template(answer)
	case mem.template.Waits():
		done.template = report.TemplateUnasked
	}
	pruned := r.prune(ctx, sj, mem, seen, replaceable(sj, mem, seen, plan, done))
	done.more, done.replaced, done.pruneErr = done.more || pruned.More, pruned.Unfinished, pruned.Err
	return done
}

// report tells the watcher, the metrics, the events and the status of what the pass saw and did, and when the next one is due.
func (r *Reconciler) report(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan, done outcome,
) (ctrl.Result, error) {
	status := report.Status(sj, mem.status.Latest(sj), passOf(sj, seen, plan, done), time.Now())
	if plan.known && !done.more && !done.crowded && done.err == nil {
		mem.notified = time.Time{}
	}
	if done.created > 0 {
		r.emit(sj, report.CreatedJobs())
	}
	if done.replaced {
		r.emit(sj, report.ReplacedJobs())
	}
	if done.createFailing {
		r.emit(sj, report.JobCreateFailed())
	}
	before, wait, statusErr := r.statuses().Write(ctx, sj, &mem.status, status, done.more)
	if before != nil {
		r.emit(sj, report.Events(before, status)...)
	}
	chores := errors.Join(done.pruneErr, statusErr)
	if chores != nil {
		ctrl.LoggerFrom(ctx).Error(chores, "what there is to do besides creating has failed, and is tried again")
	}
	key := client.ObjectKeyFromObject(sj)
	canCreate := couldCreate(&sj.Spec, seen, plan, done)
	r.Watcher.Pace(key, canCreate)
	r.Metrics.Observe(key, sample(sj, status, seen, plan, errors.Join(done.err, done.refusal, chores)))
	if done.err != nil {
		return enqueue.After(0, enqueue.PriorityNormal), done.err
	}
	return r.next(sj, mem, seen, done, canCreate, wait), nil
}

// fail ends a pass that could not see what it must go by.
func (r *Reconciler) fail(sj *scaledjobv1.ScaledJob, err error) (ctrl.Result, error) {
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	return enqueue.After(0, enqueue.PriorityNormal), err
}

// forget drops all that is kept of a ScaledJob that is gone or going.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.unsubscribe(key)
	r.Metrics.Forget(key)
	r.deadlines.Forget(key)
	if uid, known := r.memories.drop(key); known {
		r.Gate.Forget(uid)
	}
}
