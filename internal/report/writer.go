// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/retry"
)

const (
	// fieldOwner is the name under which the status is applied.
	fieldOwner = client.FieldOwner("scaledjob-operator")
	// leastInterval is the least time between two writes of a status in which only numbers changed.
	leastInterval = time.Second
	// burst is how many writes may come at once where conditions turn. On average it is one per leastInterval there too.
	burst = 2
)

// StatusRecord is what is kept of the status of one ScaledJob from one pass to the next.
type StatusRecord struct {
	// computed is the status as the last pass left it, and written as it was last applied; both are nil before that. writtenAt is when.
	computed  *scaledjobv1.ScaledJobStatus
	written   *scaledjobv1.ScaledJobStatus
	writtenAt time.Time
	// turns bounds how often a condition that turned is written at once.
	turns *rate.Limiter
	// changedAt is since when the status differs from what was written, and zero while it does not.
	changedAt time.Time
	// retry is for writes that failed, so that creating does not wait for them.
	retry retry.Retry
}

// NewStatusRecord returns that of a ScaledJob of which no status was written yet.
func NewStatusRecord() StatusRecord {
	return StatusRecord{turns: rate.NewLimiter(rate.Every(leastInterval), burst)}
}

// Latest is the status by the last pass, whether or not it was written yet.
func (r *StatusRecord) Latest(sj *scaledjobv1.ScaledJob) *scaledjobv1.ScaledJobStatus {
	if r.computed != nil {
		return r.computed
	}
	return &sj.Status
}

// stored is the status that the API server holds. What we applied ourselves is newer than what the cache shows of it.
func (r *StatusRecord) stored(sj *scaledjobv1.ScaledJob) *scaledjobv1.ScaledJobStatus {
	if r.written != nil {
		return r.written
	}
	return &sj.Status
}

// Written says whether a status was written.
func (r *StatusRecord) Written() bool { return r.written != nil }

// StatusWriter writes statuses.
type StatusWriter struct {
	// Client writes to the API server.
	Client client.StatusClient
}

// Write applies the status that a pass came to, if it is another than the stored one and it is time to. It returns the one that it replaced, or
// else nil and how long that may wait. More says that another pass follows at once. A write that failed is tried again after a while.
func (w StatusWriter) Write(
	ctx context.Context, sj *scaledjobv1.ScaledJob, record *StatusRecord, status *scaledjobv1.ScaledJobStatus, more bool,
) (replaced *scaledjobv1.ScaledJobStatus, wait time.Duration, err error) {
	now := time.Now()
	record.computed = status
	before := record.stored(sj)
	if equality.Semantic.DeepEqual(before, status) {
		record.changedAt = time.Time{}
		return nil, 0, nil
	}
	if record.changedAt.IsZero() {
		record.changedAt = now
	}
	if wait := max(record.wait(before, status, more, now), record.retry.Wait(now)); wait > 0 {
		return nil, wait, nil
	}
	err = w.apply(ctx, sj, status)
	record.retry.Note(err, now)
	if err != nil {
		return nil, record.retry.Wait(now), err
	}
	record.turns.AllowN(now, 1)
	record.written, record.writtenAt, record.changedAt = status, now, time.Time{}
	return before, 0, nil
}

// WriteAtOnce is Write for a status that waits for nothing but for a write that failed.
func (w StatusWriter) WriteAtOnce(
	ctx context.Context, sj *scaledjobv1.ScaledJob, record *StatusRecord, status *scaledjobv1.ScaledJobStatus,
) (wait time.Duration, err error) {
	now := time.Now()
	record.computed = status
	if wait := record.retry.Wait(now); wait > 0 || equality.Semantic.DeepEqual(record.stored(sj), status) {
		return wait, nil
	}
	err = w.apply(ctx, sj, status)
	record.retry.Note(err, now)
	if err == nil {
		record.written = status
	}
	return record.retry.Wait(now), err
}

// wait tells how long a changed status may wait until it is written. Where a condition turned, it does not wait, unless conditions have
// turned all the time. Where only numbers changed, it waits until the interval since the last write is over. A pass that is followed by
// another at once leaves it to that one, but not for ever.
func (r *StatusRecord) wait(before, status *scaledjobv1.ScaledJobStatus, more bool, now time.Time) time.Duration {
	if more {
		return max(0, leastInterval-now.Sub(r.changedAt))
	}
	if Turned(before.Conditions, status.Conditions) {
		missing := max(0, 1-r.turns.TokensAt(now))
		return time.Duration(missing * float64(leastInterval))
	}
	return max(0, leastInterval-now.Sub(r.writtenAt))
}

// apply sends the whole status. It names the UID, so that a ScaledJob that took the place of this one is left alone.
func (w StatusWriter) apply(ctx context.Context, sj *scaledjobv1.ScaledJob, status *scaledjobv1.ScaledJobStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	intent := identity(sj)
	intent.Object["status"] = content
	err = w.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), fieldOwner, client.ForceOwnership)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("applying the status: %w", err)
}

// Drop removes a status of another form than the CRD's, over which no other could be applied.
func (w StatusWriter) Drop(ctx context.Context, sj *scaledjobv1.ScaledJob) error {
	err := w.Client.Status().Patch(ctx, identity(sj), client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))
	if err != nil {
		return fmt.Errorf("dropping a status that can't be read: %w", err)
	}
	return nil
}

// identity names a ScaledJob, and holds nothing else of it.
func identity(sj *scaledjobv1.ScaledJob) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
	object.SetNamespace(sj.Namespace)
	object.SetName(sj.Name)
	object.SetUID(sj.UID)
	return object
}
