// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/retry"
)

const (
	// deletesAtOnce is the maximum number of deletes of one batch in flight at the same time.
	deletesAtOnce = 16
	// deletesPerReconcile is the maximum number of deletes per reconcile. It lets other ScaledJobs take their turns.
	deletesPerReconcile = 128
	// deleteTimeout is the timeout of a delete. Admission webhooks may take up to 30 s.
	deleteTimeout = 32 * time.Second
	// deleteWindow is how long deletes of one batch may start. The rest is left for the next reconcile.
	deleteWindow = 2 * time.Second
)

// Deleter deletes Jobs.
type Deleter struct {
	// Client writes to the API server.
	Client client.Writer
	// Limit bounds the requests about a namespace.
	Limit *Limiter
}

// Deletes is the state of the deletes of one ScaledJob between reconciles. The zero value is ready for use.
type Deletes struct {
	// deleted are the Jobs that were deleted while the cache may still show them.
	deleted map[types.UID]struct{}
	retry   retry.Retry
}

// Wait returns how long to wait until failed deletes are retried; 0 if none has failed.
func (r *Deletes) Wait(now time.Time) time.Duration { return r.retry.Wait(now) }

// Deleted is the result of the deletes of one reconcile.
type Deleted struct {
	// Finished is the number of finished Jobs that were deleted.
	Finished int
	// More is true if Jobs are left for the next reconcile, and Later if they may wait for a moment. Unfinished is true if
	// unfinished Jobs were deleted. A Job that is another one by now, or in another state, is left for later.
	More, Later, Unfinished bool
	// Err is the error of failed deletes. They are retried with backoff.
	Err error
}

// Delete deletes Jobs and their Pods. It skips Jobs that were deleted already but are still in the cache. After a
// failure it tries one Job at a time.
func (d Deleter) Delete(
	ctx context.Context, owner *scaledjobv1.ScaledJob, record *Deletes, wanted []*batchv1.Job,
) Deleted {
	wanted = record.left(wanted)
	if len(wanted) == 0 || record.Wait(time.Now()) > 0 {
		return Deleted{}
	}
	batch := wanted[:min(len(wanted), deletesPerReconcile)]
	if tried := record.retry.Failures(); tried > 0 { // Another Job each time: one delete may always be refused.
		batch = wanted[tried%len(wanted):][:1]
	}
	sent, errs := d.deleteAll(ctx, owner, batch)
	var done Deleted
	for i, job := range batch {
		switch {
		case errors.Is(errs[i], errChanged):
			done.Later, errs[i] = true, nil
		case sent[i] && errs[i] == nil:
			record.deleted[job.UID] = struct{}{}
			if jobs.Finished(job) {
				done.Finished++
			} else {
				done.Unfinished = true
			}
		}
	}
	done.Err = errors.Join(errs...)
	record.retry.Note(done.Err, time.Now())
	done.More = done.Err == nil && (len(wanted) > len(batch) || slices.Contains(sent, false))
	return done
}

// left returns the Jobs that were not deleted yet. It also forgets deleted Jobs that the cache no longer shows.
func (r *Deletes) left(wanted []*batchv1.Job) []*batchv1.Job {
	var left []*batchv1.Job
	shown := map[types.UID]struct{}{}
	for _, job := range wanted {
		if _, deleted := r.deleted[job.UID]; deleted {
			shown[job.UID] = struct{}{}
			continue
		}
		left = append(left, job)
	}
	r.deleted = shown
	return left
}

// deleteAll deletes Jobs in parallel. It returns which deletes it has sent, and the error of each. If they are slow, it
// does not send all of them.
func (d Deleter) deleteAll(
	ctx context.Context, owner *scaledjobv1.ScaledJob, batch []*batchv1.Job,
) (sent []bool, errs []error) {
	sent, errs = make([]bool, len(batch)), make([]error, len(batch))
	until := time.Now().Add(deleteWindow)
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	for i, job := range batch {
		options := optionsFor(owner, job)
		group.Go(func() error {
			end := d.Limit.begin(ctx, owner.Namespace, until)
			if end == nil {
				return nil
			}
			defer end()
			if time.Now().After(until) {
				return nil
			}
			sent[i], errs[i] = true, d.delete(ctx, job, options)
			return nil
		})
	}
	_ = group.Wait()
	return sent, errs
}

// optionsFor returns how to delete a Job: by UID, so that a new Job of the same name is not deleted, and with a
// propagation policy, without which the API server would orphan its Pods. A Job that is deleted because it has not
// started must not have changed since it was observed: its Pod may have become ready.
func optionsFor(owner *scaledjobv1.ScaledJob, job *batchv1.Job) []client.DeleteOption {
	policy, expected := metav1.DeletePropagationBackground, client.Preconditions{UID: &job.UID}
	if rollout := &owner.Spec.Rollout; !jobs.Finished(job) {
		policy = rollout.DeletionPropagation()
		if rollout.Strategy == scaledjobv1.RolloutUnstarted {
			expected.ResourceVersion = &job.ResourceVersion
		}
	}
	return []client.DeleteOption{client.PropagationPolicy(policy), expected}
}

// errChanged means that the Job is not the expected one, or not in the expected state. It is looked at again.
var errChanged = errors.New("the Job has changed")

// delete deletes a Job. A Job that is gone is no error.
func (d Deleter) delete(ctx context.Context, job *batchv1.Job, options []client.DeleteOption) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	err := d.Client.Delete(ctx, target, options...)
	switch {
	case apierrors.IsConflict(err):
		return errChanged
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}
	return nil
}
