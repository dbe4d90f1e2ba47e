// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/leadership"
)

const (
	// createsPerReconcile is the maximum number of creates per reconcile. It lets other ScaledJobs take their turns.
	createsPerReconcile = 512
	// createWindow is how long after the Jobs and the queues were observed creates may start. After that a new
	// reconcile observes them again.
	createWindow = 2 * time.Second
	// createTimeout is the timeout of one create.
	createTimeout = leadership.LongestCreate
	// patientTimeout is the timeout of one create after a create has timed out. Admission webhooks may take up to 30 s,
	// and start again if the operator gives up earlier.
	patientTimeout = 32 * time.Second
)

// errOwnerGoing stops the creation of Jobs for a ScaledJob that is being deleted while the cache does not show that
// yet.
var errOwnerGoing = errors.New("the ScaledJob is being deleted")

// created is the result of creating Jobs.
type created struct {
	// jobs is the number of Jobs that were created. more is true if some are left for the next reconcile.
	jobs int
	more bool
	// err is the error of a failed create.
	err error
	// refusal is the answer with which the API server refused a Job. It is not retried with backoff: the pause
	// determines when to try again.
	refusal error
	refused admission.Answer
}

// failed reports whether a create failed or was refused.
func (c created) failed() bool { return c.err != nil || c.refusal != nil }

// scale creates the Jobs of the plan, and records in the pause and in the refusals what came of it.
func (r *Reconciler) scale(ctx context.Context, t *target, seen observation, plan plan) created {
	made, more, err := r.create(ctx, t, seen, plan)
	done := created{jobs: len(made), more: more && err == nil}
	if plan.known {
		t.mem.pause.Created(ordinalsOf(made), plan.due, plan.free, time.Now())
	}
	switch {
	case errors.Is(err, jobcontrol.ErrRejected) && !t.mem.madeRoom(time.Now()):
		ctrl.LoggerFrom(ctx).Error(err, "the API server refuses to create a Job")
		t.mem.refusals.Refused(time.Now())
		t.mem.failed(answerTo(err))
		done.refusal, done.refused = err, t.mem.answer
	case errors.Is(err, jobcontrol.ErrRejected):
		done.err, t.mem.answer = err, answerTo(err) // The quota still counts deleted Jobs.
	case err != nil:
		done.err = err
		t.mem.failed(answerTo(err))
	case done.jobs > 0:
		t.mem.refusals.Accepted()
		t.mem.failures = 0
	}
	r.memories.noteQuota(t, plan, done)
	return done
}

func ordinalsOf(made []jobcontrol.Created) []int64 {
	ordinals := make([]int64, len(made))
	for i, job := range made {
		ordinals[i] = job.Ordinal
	}
	return ordinals
}

// failed records that creates ended with an error.
func (m *memory) failed(answer admission.Answer) {
	m.failures++
	m.answer = answer
}

// answerTo returns what the error of a create means.
func answerTo(err error) admission.Answer {
	if errors.Is(err, jobcontrol.ErrNotOwned) {
		return admission.Answer{Refused: true, By: admission.ByChange, Text: jobcontrol.ErrNotOwned.Error()}
	}
	return admission.Judge(err)
}

// create creates the Jobs of the plan. It first sends the creates without an answer again, and then the new ones, in
// parallel. If nothing shows that the API server accepts this template, or if creates in the namespace are slow, it
// sends one create first. It stops at the first error. It returns the Jobs that it created, and whether some are left
// for the next reconcile.
func (r *Reconciler) create(
	ctx context.Context, t *target, seen observation, plan plan,
) (made []jobcontrol.Created, more bool, err error) {
	mem := t.mem
	resend, fresh, floor := r.ordinals(t.sj.UID, plan)
	if len(resend)+len(fresh) == 0 {
		return nil, false, nil
	}
	if mem.ownerDoubted {
		if err := r.confirmOwner(ctx, t.sj); err != nil {
			return nil, false, ignoring(err, errOwnerGoing)
		}
		mem.ownerDoubted = false
	}
	creator := jobcontrol.Creator{Client: r.Client, Gate: r.Gate, Limit: &r.limiter, Leads: r.Leads}
	owner, err := t.withTemplate()
	if err != nil {
		return nil, false, err
	}
	until := time.Now().Add(createWindow)
	timeout, end := r.createTimeout(t)
	defer end()
	defer func() { logCreated(ctx, seen, plan, len(made)) }()
	for _, batch := range r.batches(t, seen, resend, fresh) {
		began := time.Now()
		more, err := creator.Create(ctx, jobcontrol.Batch{
			Owner: owner, TemplateHash: seen.templateHash, Ordinals: batch, Floor: floor, Timeout: timeout, Until: until,
		})
		made = append(made, more...)
		r.noteCreated(t, more)
		if len(more) > 0 || err != nil {
			r.memories.noteCreates(t, errors.Is(err, context.DeadlineExceeded), time.Since(began))
		}
		if err != nil {
			return made, true, ignoring(err, jobcontrol.ErrAlreadyExists)
		}
	}
	return made, len(made) < len(resend)+plan.create, nil
}

// batches returns the ordinals in the batches in which to create their Jobs.
func (r *Reconciler) batches(t *target, seen observation, resend, fresh []int64) [][]int64 {
	all, slow := slices.Concat(resend, fresh), t.mem.createsSlowly || r.memories.isSlow(t.sj.Namespace)
	if slow {
		return batches(all, true)
	}
	careful := t.mem.failures > 0 || !seen.jobs.HasTemplate(seen.templateHash)
	return append([][]int64{resend}, batches(fresh, careful)...)
}

// createTimeout returns the timeout of the creates of a reconcile. The caller must call end after them. While the
// creates of the namespace hang, one reconcile of it at a time waits until the API server names the webhook.
func (r *Reconciler) createTimeout(t *target) (timeout time.Duration, end func()) {
	end = func() { /* nothing */ }
	switch {
	case !t.mem.createsSlowly:
		return createTimeout, end
	case !r.memories.hangs(t.sj.Namespace):
		return patientTimeout, end
	}
	if end, first := r.patience.Begin(t.sj.Namespace); first {
		return patientTimeout, end
	}
	return createTimeout, end
}

// batches splits the ordinals into the batches in which to create their Jobs. If careful is true, the first batch has
// one ordinal, and each further batch is twice as large, up to as many as are sent at once; the rest are one batch.
// Then a template that the API server rejects, a full quota or a webhook that hangs costs few requests.
func batches(ordinals []int64, careful bool) [][]int64 {
	if !careful {
		return [][]int64{ordinals}
	}
	var all [][]int64
	for size := 1; len(ordinals) > 0; size *= 2 {
		if size > jobcontrol.AtOnce {
			size = len(ordinals)
		}
		next := min(size, len(ordinals))
		all, ordinals = append(all, ordinals[:next]), ordinals[next:]
	}
	return all
}

// ordinals returns the ordinals to send again, the ordinals of new Jobs, and the floor to store in all of these Jobs.
func (r *Reconciler) ordinals(owner types.UID, plan plan) (resend, fresh []int64, floor int64) {
	for _, lost := range plan.resend {
		resend = append(resend, lost.Ordinal)
	}
	fresh, floor = r.Gate.Free(owner, min(plan.create, createsPerReconcile))
	return resend, fresh, floor
}

// confirmOwner asks the API server whether the ScaledJob still exists. It is called after an unfinished Job has
// disappeared from the cache. During the deletion of a ScaledJob, its Jobs are deleted or released one by one, and the
// cache may show that before the deletion of the ScaledJob. Without this check, the operator would replace those Jobs.
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

// noteCreated adds the created Jobs to the memory and to the metrics, with the time since the notification that caused
// them.
func (r *Reconciler) noteCreated(t *target, made []jobcontrol.Created) {
	for _, job := range made {
		t.mem.tally.Created(job.UID)
		t.mem.readiness.Created(job.UID, job.At)
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
	ctrl.LoggerFrom(ctx).Info("created Jobs", "created", created,
		"depth", seen.queues.counts.Outstanding(), "active", len(seen.jobs.Active)+created, "desired", plan.desired)
}

// ignoring returns nil if err is the expected error, and err otherwise.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
