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

// takeoverPage is the page size of the list of Jobs.
const takeoverPage = 500

// takeover is the list of the Jobs that previous leaders created. Reconciles fetch it, one at a time; each continues
// where the last one failed.
type takeover struct {
	done atomic.Bool

	mu sync.Mutex
	// namespaces are the namespaces still to be listed, next is the continue token for the first of them, and listed
	// are the Jobs listed so far.
	namespaces []string
	next       string
	listed     []metav1.PartialObjectMetadata
}

// tookOver records every Job of a ScaledJob that exists now and is newer than the cache, because a previous leader may
// have created it. It returns true when that is complete, and false while another goroutine is doing it.
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
		return false, fmt.Errorf("listing the Jobs of previous leaders: %w", err)
	}
	for i := range t.listed {
		g.inherit(&t.listed[i].ObjectMeta)
	}
	t.listed = nil
	t.done.Store(true)
	return true, nil
}

// listFormer lists the remaining Jobs. It starts again from the beginning if the continue token has expired.
func (g *Gate) listFormer(ctx context.Context, t *takeover) error {
	if len(t.namespaces) == 0 {
		t.namespaces, t.next, t.listed = g.watched(), "", nil
	}
	for len(t.namespaces) > 0 {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
		err := g.live.List(ctx, page,
			client.InNamespace(t.namespaces[0]), client.Limit(takeoverPage), client.Continue(t.next))
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

// watched returns the namespaces to list. NamespaceAll stands for all of them.
func (g *Gate) watched() []string {
	if len(g.namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return g.namespaces
}

// inherit makes the gate wait until the cache shows a Job of a previous leader.
func (g *Gate) inherit(job *metav1.ObjectMeta) {
	_, owner, ok := jobs.Owner(job)
	if !ok || g.stores.reached(job.ResourceVersion) {
		return
	}
	// Saw records the ordinal once the cache shows the Job: a Job in another namespace than the owner must not count.
	g.wrote(owner, 0, job)
}
