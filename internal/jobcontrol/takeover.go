// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// takeoverPage is how many Jobs are listed with one request.
const takeoverPage = 500

// takeover is the list of the Jobs of a former leader. Passes make it, one at a time, each going on where the one before was cut short.
type takeover struct {
	done atomic.Bool

	mu sync.Mutex
	// namespaces are those that are yet to be listed, and next is where the list of the first of these goes on. listed are the Jobs so far.
	namespaces []string
	next       string
	listed     []metav1.PartialObjectMetadata
}

// tookOver notes every Job of a ScaledJob that exists now and that the cache has not reached: whoever led before may have created it. It says
// whether that is done, which it is not while somebody else is at it.
func (g *Gate) tookOver(ctx context.Context) (bool, error) {
	t := &g.takeover
	if t.done.Load() {
		return true, nil
	}
	if !t.mu.TryLock() {
		return false, nil
	}
	defer t.mu.Unlock()
	if t.done.Load() {
		return true, nil
	}
	if err := g.stores.Check(); err != nil {
		return false, err
	}
	if err := g.listFormer(ctx, t); err != nil {
		return false, fmt.Errorf("listing the Jobs of a former leader: %w", err)
	}
	for i := range t.listed {
		g.inherit(&t.listed[i].ObjectMeta)
	}
	t.listed = nil
	t.done.Store(true)
	return true, nil
}

// listFormer lists what is left of the list. It begins anew where the API server does not know any more how the list goes on.
func (g *Gate) listFormer(ctx context.Context, t *takeover) error {
	if len(t.namespaces) == 0 {
		t.namespaces, t.next, t.listed = g.watched(), "", nil
	}
	for len(t.namespaces) > 0 {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
		err := g.live.List(ctx, page, client.InNamespace(t.namespaces[0]), client.Limit(takeoverPage), client.Continue(t.next))
		if apierrors.IsResourceExpired(err) {
			t.namespaces = nil
		}
		if err != nil {
			return err
		}
		t.listed = append(t.listed, page.Items...)
		if t.next = page.Continue; t.next == "" {
			t.namespaces = t.namespaces[1:]
		}
	}
	return nil
}

// watched are the namespaces to list, of which one may stand for all.
func (g *Gate) watched() []string {
	if len(g.namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return g.namespaces
}

// inherit awaits a Job that a former leader made.
func (g *Gate) inherit(job *metav1.ObjectMeta) {
	_, owner, ok := jobs.Owner(job)
	if !ok || g.stores.reached(job.ResourceVersion) {
		return
	}
	// Its ordinal counts once the cache shows it, in the namespace of the owner.
	g.Wrote(owner, 0, job)
}
