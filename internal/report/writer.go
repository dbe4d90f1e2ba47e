// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/moment"
	"miracle.dev/scaledjob-operator/internal/retry"
)

const (
	// fieldOwner is the field manager of the status.
	fieldOwner = client.FieldOwner("scaledjob-operator")
	// leastInterval is the average time between two writes of a status whose conditions change all the time. Writes of
	// numbers count too.
	leastInterval = time.Second
	// applyTimeout bounds a write, so that a slow one delays the Jobs of the ScaledJob only briefly.
	applyTimeout = 5 * time.Second
	// burst is how many writes may follow each other without delay if conditions change.
	burst = 3
)

// StatusRecord is the state of the status of one ScaledJob between reconciles.
type StatusRecord struct {
	// computed is the status of the last reconcile, and written is the status that was last applied. Both are nil until
	// then.
	computed *scaledjobv1.ScaledJobStatus
	written  *scaledjobv1.ScaledJobStatus
	// changes limits the rate at which changes of conditions are written.
	changes *rate.Limiter
	// waits is true if the computed status differs from the written one, and due is from when on it may be written, if
	// only numbers have changed.
	waits bool
	due   time.Time
	// retry delays writes after failures. Creating Jobs does not wait for them.
	retry retry.Retry
	// alive says whether the answer to the last write shows that the ScaledJob exists and is not being deleted.
	alive bool
}

// NewStatusRecord returns the record of a ScaledJob whose status was not written yet.
func NewStatusRecord() StatusRecord {
	return StatusRecord{changes: rate.NewLimiter(rate.Every(leastInterval), burst)}
}

// Latest returns the status of the last reconcile, even if it was not written yet.
func (r *StatusRecord) Latest(sj *scaledjobv1.ScaledJob) *scaledjobv1.ScaledJobStatus {
	if r.computed != nil {
		return r.computed
	}
	return &sj.Status
}

// stored returns the status in the API server. The status that this process applied is newer than the cached one.
func (r *StatusRecord) stored(sj *scaledjobv1.ScaledJob) *scaledjobv1.ScaledJobStatus {
	if r.written != nil {
		return r.written
	}
	return &sj.Status
}

// Alive reports whether the ScaledJob existed, and was not being deleted, when the last write was answered.
func (r *StatusRecord) Alive() bool { return r.alive }

// Waits reports whether the computed status still has to be written.
func (r *StatusRecord) Waits() bool { return r.waits }

// Written reports whether a status was written.
func (r *StatusRecord) Written() bool { return r.written != nil }

// StatusWriter writes statuses. It is safe for concurrent use, with different records.
type StatusWriter struct {
	// Client writes to the API server.
	Client client.StatusClient

	pace pace
}

// Write applies the status of a reconcile if it differs from the stored one and a write is allowed now. It returns the
// status that it replaced, or nil and how long the write is delayed. more is true if another reconcile follows
// immediately. Failed writes are retried with backoff.
func (w *StatusWriter) Write(
	ctx context.Context, sj *scaledjobv1.ScaledJob,
	record *StatusRecord, status *scaledjobv1.ScaledJobStatus, more bool,
) (replaced *scaledjobv1.ScaledJobStatus, wait time.Duration, err error) {
	now := time.Now()
	record.computed = status
	before := record.stored(sj)
	if SameStatus(before, status) {
		record.waits = false
		record.share(sj, before)
		return nil, 0, nil
	}
	urgent := changed(before.Conditions, status.Conditions)
	switch unbooked := !record.waits && record.due.Before(now); {
	case unbooked && urgent:
		record.due = now.Add(delay())
	case unbooked:
		record.due = w.pace.book(sj.Namespace, now)
	case urgent:
		record.due = moment.First(record.due, now.Add(delay()))
	}
	record.waits = true
	if wait := max(record.wait(urgent, more, now), record.retry.Wait(now)); wait > 0 {
		return nil, wait, nil
	}
	if err := w.apply(ctx, sj, record, status); err != nil {
		return nil, record.retry.Wait(time.Now()), err
	}
	if record.changes.TokensAt(now) > 0 {
		record.changes.ReserveN(now, 1)
	}
	return before, 0, nil
}

// WriteAtOnce is like Write, but delays the write only after failed writes.
func (w *StatusWriter) WriteAtOnce(
	ctx context.Context, sj *scaledjobv1.ScaledJob, record *StatusRecord, status *scaledjobv1.ScaledJobStatus,
) (wait time.Duration, err error) {
	record.computed = status
	if wait := record.retry.Wait(time.Now()); wait > 0 || SameStatus(record.stored(sj), status) {
		return wait, nil
	}
	err = w.apply(ctx, sj, record, status)
	return record.retry.Wait(time.Now()), err
}

// share keeps one copy of a status that is computed, stored and, possibly, cached. It does not keep the cached object.
func (r *StatusRecord) share(sj *scaledjobv1.ScaledJob, same *scaledjobv1.ScaledJobStatus) {
	if SameStatus(&sj.Status, same) {
		same = new(sj.Status)
	}
	r.computed = same
	if r.written != nil {
		r.written = same
	}
}

// wait returns how long the write of a changed status is delayed. If conditions have changed, it is urgent, and is not
// delayed unless there were many writes. If only numbers have changed, or if another reconcile follows immediately, it
// is late.
func (r *StatusRecord) wait(urgent, more bool, now time.Time) time.Duration {
	if urgent && !more && r.changes.TokensAt(now) >= 1 {
		return 0
	}
	return max(0, r.due.Sub(now))
}

// apply applies the whole status, and records what the answer shows. A new ScaledJob of the same name gets the status
// too, until the first reconcile of it: the API server does not compare the UID.
func (w *StatusWriter) apply(
	ctx context.Context, sj *scaledjobv1.ScaledJob, record *StatusRecord, status *scaledjobv1.ScaledJobStatus,
) (err error) {
	defer func() { record.retry.Note(err, time.Now()) }()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	object := identity(sj)
	object.Object["status"] = content
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	began := time.Now()
	err = w.Client.Status().Apply(ctx,
		client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
	record.alive = false
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("applying the status: %w", err)
	}
	w.pace.note(sj.Namespace, time.Since(began))
	record.written, record.waits, record.due = status, false, time.Time{}
	// The object now has the answer. What was sent has no resourceVersion.
	record.alive = err == nil &&
		object.GetResourceVersion() != "" && object.GetUID() == sj.UID && object.GetDeletionTimestamp() == nil
	return nil
}

// Drop removes a status that does not match the CRD. The API server would reject any status applied over it. The patch
// tests the UID, so that the status of a new ScaledJob of the same name stays: for a status, the API server does not
// compare a UID that is part of the object.
func (w *StatusWriter) Drop(ctx context.Context, sj *scaledjobv1.ScaledJob) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	patch := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},{"op":"add","path":"/status","value":{}}]`, sj.UID)
	if err := w.Client.Status().Patch(ctx, identity(sj), client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("removing a status that can't be decoded: %w", err)
	}
	return nil
}

// identity returns an object that identifies a ScaledJob and has no other fields.
func identity(sj *scaledjobv1.ScaledJob) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
	object.SetNamespace(sj.Namespace)
	object.SetName(sj.Name)
	object.SetUID(sj.UID)
	return object
}
