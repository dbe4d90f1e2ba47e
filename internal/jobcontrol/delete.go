// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
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
	// deletesAtOnce is how many deletes of one batch are under way at the same time.
	deletesAtOnce = 16
	// deletesPerReconcile is how many deletes a pass sends before others get their turn.
	deletesPerReconcile = 128
)

// Deleter deletes Jobs.
type Deleter struct {
	// Client writes to the API server.
	Client client.Writer
}

// Deletes is what is kept of the deletes of one ScaledJob's Jobs from one pass to the next. The zero value is ready.
type Deletes struct {
	// deleted are the Jobs that were deleted, as long as the cache may still show them.
	deleted map[types.UID]struct{}
	retry   retry.Retry
}

// Wait is how long to wait until deletes that failed are tried again, 0 if none has.
func (r *Deletes) Wait(now time.Time) time.Duration { return r.retry.Wait(now) }

// Deleted is what a pass has deleted.
type Deleted struct {
	// More says that some Jobs are left for another pass, and Unfinished that Jobs which had not finished are among the deleted ones.
	More, Unfinished bool
	// Err is why some could not be deleted. They are tried again after a while.
	Err error
}

// Delete deletes Jobs with their Pods. Jobs that the cache still shows after their deletion are not deleted again. While deleting fails, one Job
// at a time is tried.
func (d Deleter) Delete(ctx context.Context, owner *scaledjobv1.ScaledJob, record *Deletes, wanted []*batchv1.Job) Deleted {
	wanted = record.left(wanted)
	if len(wanted) == 0 || record.Wait(time.Now()) > 0 {
		return Deleted{}
	}
	batch := wanted[:min(len(wanted), deletesPerReconcile)]
	if tried := record.retry.Failures(); tried > 0 { // One at a time, each in its turn: what is refused may be refused for ever.
		batch = wanted[tried%len(wanted):][:1]
	}
	errs := d.deleteAll(ctx, owner, batch)
	done := Deleted{Err: errors.Join(errs...)}
	for i, job := range batch {
		if errs[i] == nil {
			record.deleted[job.UID] = struct{}{}
			done.Unfinished = done.Unfinished || !jobs.Finished(job)
		}
	}
	record.retry.Note(done.Err, time.Now())
	done.More = done.Err == nil && len(wanted) > len(batch)
	return done
}

// left are those of the Jobs to delete that were not deleted yet. Of the deleted ones, just the others can show up again.
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

// deleteAll deletes Jobs, several at the same time, and returns the error of each.
func (d Deleter) deleteAll(ctx context.Context, owner *scaledjobv1.ScaledJob, batch []*batchv1.Job) []error {
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	for i, job := range batch {
		policy := metav1.DeletePropagationBackground
		if !jobs.Finished(job) {
			policy = owner.Spec.Rollout.DeletionPropagation()
		}
		group.Go(func() error {
			errs[i] = d.delete(ctx, job, policy)
			return nil
		})
	}
	_ = group.Wait()
	return errs
}

// delete deletes this very Job: not one of the same name that took its place. Without the propagation policy the API server would
// leave the Pods of the Job behind.
func (d Deleter) delete(ctx context.Context, job *batchv1.Job, policy metav1.DeletionPropagation) error {
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	err := d.Client.Delete(ctx, target, client.PropagationPolicy(policy), client.Preconditions{UID: &job.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting Job %s: %w", job.Name, err)
}
