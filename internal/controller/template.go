// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// errChanged means that the template is not the one that was decided on. The cache will show the change.
var errChanged = errors.New("the template has changed, and the cache does not show it yet")

// place takes a place for requests of this kind, and returns how to give it back; nil if there is none. The requests
// with a large template share one place, so that a worker has no more than one at a time. Without it, none of them is
// sent in this reconcile: otherwise the dry run might get the place for which the creates wait.
func (t *target) place(kind enqueue.Kind) (giveBack func()) {
	if kind != enqueue.KindLarge {
		return t.pass.Take(kind)
	}
	if !t.largeAsked {
		t.largeAsked, t.large = true, t.pass.Take(kind)
	}
	if t.large == nil {
		return nil
	}
	return func() {}
}

// fill returns the ScaledJob with the template of its Jobs, to make Jobs of. The place for that must have been taken.
// fill decodes the template once in a reconcile.
func (r *Reconciler) fill(ctx context.Context, t *target) (*scaledjobv1.ScaledJob, error) {
	if t.filled == nil && t.fillErr == nil {
		t.filled, t.fillErr = r.decode(ctx, t)
	}
	return t.filled, t.fillErr
}

// decode returns the ScaledJob with the decoded template. If that is too large for the cache, decode reads it from the
// API server, and returns errChanged if it is another one there.
func (r *Reconciler) decode(ctx context.Context, t *target) (*scaledjobv1.ScaledJob, error) {
	template := t.template
	if !template.Held() {
		var err error
		if template, err = r.readTemplate(ctx, t); err != nil {
			return nil, err
		}
	}
	decoded, err := template.Decode()
	if err != nil {
		return nil, err
	}
	filled := *t.sj
	filled.Spec.JobTemplate = decoded
	return &filled, nil
}

// readTemplate reads the template from the API server. It must be the one that was decided on.
func (r *Reconciler) readTemplate(ctx context.Context, t *target) (scaledjob.Template, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	var now scaledjob.ScaledJob
	if err := r.Live.Get(ctx, t.key(), &now); client.IgnoreNotFound(err) != nil {
		return scaledjob.Template{}, fmt.Errorf("reading the template of the Jobs: %w", err)
	}
	if now.UID != t.sj.UID || now.Template.Hash != t.template.Hash {
		return scaledjob.Template{}, errChanged
	}
	return now.Template, nil
}

// dropTemplate drops the template, and lets others use large ones.
func (t *target) dropTemplate() {
	t.filled = nil
	if t.large != nil {
		t.large()
	}
}
