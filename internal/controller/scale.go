// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// writesAtOnce is how many creates or deletes of one pass are under way at the same time.
	writesAtOnce = 16
	// writesPerPass is how many creates or deletes a pass does before others get their turn.
	writesPerPass = 128
	// createTimeout is how long one create may take. It is shorter than the time between a leader's last renewal and the first moment
	// at which another may lead.
	createTimeout = 4 * time.Second
	// patientTimeout is how long it may take after one has failed. An admission webhook may be what takes so long: the API server gives it
	// up to 30 s, and starts all over if the operator does not wait.
	patientTimeout = 32 * time.Second
	// createGrace is how long creates go on after the operator was told to stop, so that they end with an answer.
	createGrace = 5 * time.Second
)

var (
	// errTaken stops a batch whose next name exists already. It is no failure: the next pass knows what the name holds.
	errTaken = errors.New("a Job of this name exists already")
	// errRefused is that the API server answered that it takes no such Job for now.
	errRefused = errors.New("the API server refuses the Job")
	// errOwnerGoing stops a pass over a ScaledJob that is being deleted, which the cache does not show yet.
	errOwnerGoing = errors.New("the ScaledJob is being deleted")
)

// scale creates the Jobs of the plan, and tells how many that were and whether some are left for another pass. First come the creates
// that ended without an answer, by themselves; then the others, many at once, and carefully where nothing tells that the API server accepts
// this template. The first error ends it.
func (r *Reconciler) scale(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan,
) (created int, more bool, err error) {
	resend, fresh := r.ordinals(sj.UID, plan)
	if len(resend)+len(fresh) == 0 {
		return 0, false, nil
	}
	if mem.ownerDoubted {
		if err := r.confirmOwner(ctx, sj); err != nil {
			return 0, false, ignoring(err, errOwnerGoing)
		}
		mem.ownerDoubted = false
	}
	stopping := ctx
	ctx, cancel := outliving(ctx, createGrace)
	defer cancel()
	timeout := createTimeout
	if mem.createFailed {
		timeout = patientTimeout
	}
	careful := mem.createFailed || !seen.jobs.HasTemplate(mem.templateHash)
	for _, batch := range append([][]int64{resend}, batches(fresh, careful)...) {
		made, err := r.createAll(ctx, stopping, sj, batch, timeout)
		created += len(made)
		mem.add(made)
		r.measure(sj, mem, made)
		if err != nil {
			mem.createFailed = !errors.Is(err, errTaken)
			r.logCreated(ctx, seen, plan, created)
			return created, true, ignoring(err, errTaken)
		}
	}
	mem.createFailed = false
	r.logCreated(ctx, seen, plan, created)
	return created, plan.create > len(fresh), nil
}

// batches are the ordinals as they are created: all of them, or, to be careful, one alone, and then twice as many each time, so that a template
// which the API server does not take, or a quota which has room for one, costs few creates.
func batches(ordinals []int64, careful bool) [][]int64 {
	if !careful {
		return [][]int64{ordinals}
	}
	var all [][]int64
	for size := 1; len(ordinals) > 0; size *= 2 {
		next := min(size, len(ordinals))
		all, ordinals = append(all, ordinals[:next]), ordinals[next:]
	}
	return all
}

// ordinals are those to send again, and those of the Jobs to create anew in this pass.
func (r *Reconciler) ordinals(owner types.UID, plan plan) (resend, fresh []int64) {
	for _, lost := range plan.resend {
		resend = append(resend, lost.Ordinal)
	}
	return resend, r.Gate.Free(owner, min(plan.create, writesPerPass))
}

// confirmOwner asks the API server whether the ScaledJob still stands. It is called if a Job that had not finished has left the cache
// since the last count. While a ScaledJob is deleted, its Jobs are deleted or released one by one, and the cache may show that before it
// shows the deletion itself: without the question those Jobs would be replaced.
func (r *Reconciler) confirmOwner(ctx context.Context, sj *scaledjobv1.ScaledJob) error {
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(sj), owner)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("confirming the ScaledJob: %w", err)
	}
	if err != nil || owner.UID != sj.UID || owner.DeletionTimestamp != nil {
		return errOwnerGoing
	}
	return nil
}

// creation is a Job that was created, and when the API server had answered.
type creation struct {
	uid types.UID
	at  time.Time
}

// measure reports the created Jobs, and how soon after the notification that asked for them they came.
func (r *Reconciler) measure(sj *scaledjobv1.ScaledJob, mem *memory, made []creation) {
	for _, job := range made {
		var reaction time.Duration
		if !mem.notified.IsZero() {
			reaction = job.at.Sub(mem.notified)
		}
		r.Metrics.Created(client.ObjectKeyFromObject(sj), sj.Spec.QueueName, reaction)
	}
}

// createAll creates the Jobs with these ordinals, many at once. After an error, or once stopping has ended, it
// starts no other; those under way are waited for and not cancelled, since a cancelled create is one without an answer.
func (r *Reconciler) createAll(
	ctx, stopping context.Context, sj *scaledjobv1.ScaledJob, ordinals []int64, timeout time.Duration,
) ([]creation, error) {
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	var failed atomic.Bool
	made, errs := make([]creation, len(ordinals)), make([]error, len(ordinals))
	for i, ordinal := range ordinals {
		group.Go(func() error {
			// Asked here and not before Go, which waits until one of those under way has ended.
			if failed.Load() || ended(stopping) {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			uid, err := r.create(ctx, sj, ordinal)
			made[i], errs[i] = creation{uid, time.Now()}, err
			if err != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait()
	return slices.DeleteFunc(made, func(c creation) bool { return c.uid == "" }), worst(errs)
}

// worst is the first failure among the errors that is no refusal, or else the first refusal, or errTaken if that is all there is.
func worst(errs []error) error {
	var found error
	for _, err := range errs {
		if severity(err) > severity(found) {
			found = err
		}
	}
	return found
}

func severity(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTaken):
		return 1
	case errors.Is(err, errRefused):
		return 2
	default:
		return 3
	}
}

// create creates the Job with this ordinal and returns its UID. It notes with the gate what became of it.
func (r *Reconciler) create(ctx context.Context, sj *scaledjobv1.ScaledJob, ordinal int64) (types.UID, error) {
	job := jobs.Build(sj, ordinal)
	name := job.Name
	err := r.Client.Create(ctx, job)
	switch {
	case err == nil:
		r.Gate.Wrote(sj.UID, ordinal, &job.ObjectMeta)
		return job.UID, nil
	case apierrors.IsAlreadyExists(err):
		return "", r.resolveTaken(ctx, sj, name, ordinal, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		r.Gate.Answered(sj.UID, ordinal)
		return "", fmt.Errorf("creating Job %s: %w: %w", name, errRefused, err)
	case notCarriedOut(err):
		r.Gate.Answered(sj.UID, ordinal)
	default:
		r.Gate.Lost(sj.UID, consistency.Unanswered{Ordinal: ordinal, Since: time.Now()})
	}
	return "", fmt.Errorf("creating Job %s: %w", name, err)
}

// resolveTaken finds out whose the Job is that has the name of this ordinal. Our own is awaited in the cache. In either case the ordinal is
// skipped from now on: our own Job may have lost the annotation that tells it. If there is no such Job, the answer to the create was wrong,
// or the Job is gone by now; then the create has failed.
func (r *Reconciler) resolveTaken(
	ctx context.Context, sj *scaledjobv1.ScaledJob, name string, ordinal int64, createErr error,
) error {
	var job batchv1.Job
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: sj.Namespace, Name: name}, &job)
	switch {
	case apierrors.IsNotFound(err):
		r.Gate.Answered(sj.UID, ordinal)
		return fmt.Errorf("creating Job %s: %w", name, createErr)
	case err != nil:
		return fmt.Errorf("looking at the existing Job %s: %w", name, err)
	case jobs.ControllerUID(&job) == sj.UID:
		r.Gate.Wrote(sj.UID, ordinal, &job.ObjectMeta)
	default:
		ctrl.LoggerFrom(ctx).Info("a foreign Job has the name that was due, its number is skipped", "job", name)
		r.Gate.Skip(sj.UID, ordinal)
	}
	return errTaken
}

// notCarriedOut says whether the API server answered that it did not create the Job. After any other error it may have created it.
func notCarriedOut(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

func (r *Reconciler) logCreated(ctx context.Context, seen observation, plan plan, created int) {
	if created == 0 {
		return
	}
	ctrl.LoggerFrom(ctx).Info("created Jobs",
		"created", created, "depth", seen.depth, "active", len(seen.jobs.Active)+created, "desired", plan.desired)
}

// outliving is a context that ends a grace period after its parent.
func outliving(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { time.AfterFunc(grace, cancel) })
	return ctx, func() { stop(); cancel() }
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// ignoring is err, or nil where err is the one that is no failure.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
