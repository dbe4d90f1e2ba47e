// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/report"
)

const (
	// createsPerReconcile is how many creates a reconcile sends before others get their turn.
	createsPerReconcile = 128
	// lookLasts is how long after the look at the queue creates may begin. Then the spec, the Jobs and the depth are looked at anew.
	lookLasts = 2 * time.Second
	// createTimeout is how long one create may take. It is shorter than the time between a leader's last renewal and the first moment
	// at which another may lead.
	createTimeout = 4 * time.Second
	// patientTimeout is how long it may take after one has failed. An admission webhook may be what takes so long: the API server gives it
	// up to 30 s, and starts all over if the operator does not wait.
	patientTimeout = 32 * time.Second
)

var (
	// errOwnerGoing stops the creation of Jobs for a ScaledJob that is being deleted, which the cache does not show yet.
	errOwnerGoing = errors.New("the ScaledJob is being deleted")
	// errCrowded puts off creates that would have to be patient, while many are.
	errCrowded = errors.New("many creates take long")
)

// outcome is what a reconcile did.
type outcome struct {
	// created is how many Jobs were created.
	created int
	// err is why creating failed, and createFailing says that it did not in the reconcile before.
	err           error
	createFailing bool
	// refusal is the answer of the API server that refused a Job. It is no error to retry: the pause says when to try again.
	refusal error
	// more says that the reconcile stopped before all was created, to let others have a turn, and crowded that creating waits for its turn.
	more, crowded bool
	// template is what the API server says of the template, and nil where it was not asked.
	template *report.Condition
	// pruned is what became of the deletes.
	pruned jobcontrol.Deleted
}

// unfinished says that Jobs are left to create or to delete, at once.
func (o outcome) unfinished() bool { return o.more || o.pruned.More }

// failed says that a Job could not be created.
func (o outcome) failed() bool { return o.err != nil || o.refusal != nil }

// scale creates the Jobs of the plan, and tells the pause whether the API server took them.
func (r *Reconciler) scale(ctx context.Context, t *target, seen observation, plan plan) outcome {
	failedBefore := t.mem.createFailed
	created, more, err := r.create(ctx, t, seen, plan)
	done := outcome{created: created, more: more}
	switch {
	case errors.Is(err, errCrowded):
		done.crowded = true
	case errors.Is(err, jobcontrol.ErrRefused):
		ctrl.LoggerFrom(ctx).Error(err, "the API server refuses to create a Job")
		t.mem.pause.Refused(time.Now())
		done.refusal, done.more = err, false
	case err != nil:
		done.err, done.createFailing = err, t.mem.createFailed && !failedBefore
	case created > 0:
		t.mem.pause.Accepted()
	}
	return done
}

// create creates the Jobs of the plan, and returns how many and whether some are left for another reconcile. First come the creates that
// ended without an answer, by themselves; then the others, many at once, and carefully where nothing tells that the API server accepts this
// template. The first error ends it.
func (r *Reconciler) create(ctx context.Context, t *target, seen observation, plan plan) (created int, more bool, err error) {
	mem := t.mem
	resend, fresh, floor := r.ordinals(t.sj.UID, plan)
	if len(resend)+len(fresh) == 0 {
		return 0, false, nil
	}
	until := time.Now().Add(lookLasts)
	if mem.ownerDoubted {
		if err := r.confirmOwner(ctx, t.sj); err != nil {
			return 0, false, ignoring(err, errOwnerGoing)
		}
		mem.ownerDoubted = false
	}
	creator := jobcontrol.Creator{Client: r.Client, Gate: r.Gate, Leads: r.Leads}
	timeout := createTimeout
	if mem.createFailed {
		if !r.patience.TryAcquire(1) {
			return 0, false, errCrowded
		}
		defer r.patience.Release(1)
		timeout = patientTimeout
	}
	careful := mem.createFailed || !seen.jobs.HasTemplate(seen.templateHash)
	defer func() { logCreated(ctx, seen, plan, created) }()
	for _, batch := range append([][]int64{resend}, batches(fresh, careful)...) {
		made, err := creator.Create(ctx, jobcontrol.Batch{Owner: t.sj, Ordinals: batch, Floor: floor, Timeout: timeout, Until: until})
		created += len(made)
		r.noteCreated(t, made)
		if err != nil {
			mem.createFailed = !errors.Is(err, jobcontrol.ErrTaken)
			return created, true, ignoring(err, jobcontrol.ErrTaken)
		}
	}
	mem.createFailed = mem.createFailed && created == 0
	return created, created < len(resend)+plan.create, nil
}

// batches are the ordinals as they are created: all of them, or, to be careful, one alone, and then twice as many each time. So a template
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

// ordinals are those to send again, those of the Jobs to create anew now, and the floor that all of these are to tell.
func (r *Reconciler) ordinals(owner types.UID, plan plan) (resend, fresh []int64, floor int64) {
	for _, lost := range plan.resend {
		resend = append(resend, lost.Ordinal)
	}
	fresh, floor = r.Gate.Free(owner, min(plan.create, createsPerReconcile))
	return resend, fresh, floor
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

// noteCreated keeps and reports the created Jobs, and how soon after the notification that asked for them they came.
func (r *Reconciler) noteCreated(t *target, made []jobcontrol.Created) {
	for _, job := range made {
		t.mem.tally.Created(job.UID)
		var reaction time.Duration
		if !t.mem.notified.IsZero() {
			reaction = job.At.Sub(t.mem.notified)
		}
		r.Metrics.Created(t.key(), t.sj.Spec.QueueName, reaction)
	}
}

func logCreated(ctx context.Context, seen observation, plan plan, created int) {
	if created == 0 {
		return
	}
	ctrl.LoggerFrom(ctx).Info("created Jobs",
		"created", created, "depth", seen.queues.counts.Outstanding(), "active", len(seen.jobs.Active)+created, "desired", plan.desired)
}

// ignoring is err, or nil where err is the one that is no failure.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
