// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// largeTemplates is how many bytes of large templates are decoded at the same time.
const largeTemplates = 64 << 20

// fillTemplate puts the template of the Jobs into the ScaledJob, before the first Job is made of it. If the template is
// too large for the cache, fillTemplate reads it from the API server, and lets only few reconciles do so at the same
// time. It returns errPostponed if this one has to wait, also for a cache that lags behind the API server.
func (r *Reconciler) fillTemplate(ctx context.Context, t *target) error {
	if t.filled {
		return nil
	}
	template := t.template
	if !template.Held() {
		if !r.large.take(t.sj.Namespace, template.Weight) {
			return errPostponed
		}
		t.largeTaken = true
		var err error
		if template, err = r.readTemplate(ctx, t); err != nil {
			return err
		}
	}
	decoded, err := template.Decode()
	if err != nil {
		return err
	}
	t.sj.Spec.JobTemplate, t.filled = *decoded, true
	return nil
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
		return scaledjob.Template{}, errPostponed
	}
	return now.Template, nil
}

// dropTemplate lets others use large templates.
func (r *Reconciler) dropTemplate(t *target) {
	if t.largeTaken {
		r.large.giveBack(t.sj.Namespace, t.template.Weight)
	}
}

// large bounds the large templates that are decoded at the same time: all together, and to one of each namespace. The
// zero value is ready for use.
type large struct {
	mu    sync.Mutex
	taken int64
	by    map[string]bool
}

// take reports whether a template of this weight may be decoded. One that is too heavy in any case has to be alone.
func (l *large) take(namespace string, weight int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	weight = min(weight, largeTemplates)
	if l.by[namespace] || l.taken+weight > largeTemplates {
		return false
	}
	if l.by == nil {
		l.by = map[string]bool{}
	}
	l.taken += weight
	l.by[namespace] = true
	return true
}

func (l *large) giveBack(namespace string, weight int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken -= min(weight, largeTemplates)
	delete(l.by, namespace)
}
