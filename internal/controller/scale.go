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
)

const (
	// createsPerPass is how many creates a pass sends before others get their turn.
	createsPerPass = 128
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
	// errOwnerGoing stops a pass over a ScaledJob that is being deleted, which the cache does not show yet.
	errOwnerGoing = errors.New("the ScaledJob is being deleted")
	// errCrowded stops a pass that would have to be patient, while many are.
	errCrowded = errors.New("many creates take long")
)

// scale creates the Jobs of the plan, and tells how many that were and whether some are left for another pass. First come the creates
// that ended without an answer, by themselves; then the others, many at once, and carefully where nothing tells that the API server accepts
// this template. The first error ends it.
func (r *Reconciler) scale(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan,
) (created int, more bool, err error) {
	resend, fresh, floor := r.ordinals(sj.UID, plan)
	if len(resend)+len(fresh) == 0 {
		return 0, false, nil
	}
	until := time.Now().Add(lookLasts)
	if mem.ownerDoubted {
		if err := r.confirmOwner(ctx, sj); err != nil {
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
	for _, batch := range append([][]int64{resend}, batches(fresh, careful)...) {
		made, err := creator.Create(ctx, jobcontrol.Batch{Owner: sj, Ordinals: batch, Floor: floor, Timeout: timeout, Until: until})
		created += len(made)
		r.note(sj, mem, made)
		if err != nil {
			mem.createFailed = !errors.Is(err, jobcontrol.ErrTaken)
			r.logCreated(ctx, seen, plan, created)
			return created, true, ignoring(err, jobcontrol.ErrTaken)
		}
	}
	mem.createFailed = mem.createFailed && created == 0
	r.logCreated(ctx, seen, plan, created)
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

// ordinals are those to send again, those of the Jobs to create anew in this pass, and the floor that all of these are to tell.
func (r *Reconciler) ordinals(owner types.UID, plan plan) (resend, fresh []int64, floor int64) {
	for _, lost := range plan.resend {
		resend = append(resend, lost.Ordinal)
	}
	fresh, floor = r.Gate.Free(owner, min(plan.create, createsPerPass))
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

// note keeps and reports the created Jobs, and how soon after the notification that asked for them they came.
func (r *Reconciler) note(sj *scaledjobv1.ScaledJob, mem *memory, made []jobcontrol.Created) {
	for _, job := range made {
		mem.tally.Created(job.UID)
		var reaction time.Duration
		if !mem.notified.IsZero() {
			reaction = job.At.Sub(mem.notified)
		}
		r.Metrics.Created(client.ObjectKeyFromObject(sj), sj.Spec.QueueName, reaction)
	}
}

func (r *Reconciler) logCreated(ctx context.Context, seen observation, plan plan, created int) {
	if created == 0 {
		return
	}
	ctrl.LoggerFrom(ctx).Info("created Jobs",
		"created", created, "depth", seen.queues.depth(), "active", len(seen.jobs.Active)+created, "desired", plan.desired)
}

// ignoring is err, or nil where err is the one that is no failure.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
