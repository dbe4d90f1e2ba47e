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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/pages"
)

// takeover is the list of the Jobs that previous leaders created. Reconciles fetch it, one at a time; each continues
// where the last one failed.
type takeover struct {
	done atomic.Bool

	mu sync.Mutex
	// namespaces are the namespaces still to be listed, next is the continue token for the first of them, and size the
	// size of the next page. listed are the Jobs so far that the gate has to wait for.
	namespaces []string
	next       string
	size       pages.Size
	listed     []former
}

// former is a Job of a previous leader, with no more of its metadata than the gate needs.
type former struct {
	owner types.UID
	job   metav1.ObjectMeta
}

// tookOver records every Job of a ScaledJob that exists now and that the cache does not show yet, because a previous
// leader may have created it. It returns true when that is complete, and false while another goroutine is doing it.
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
		// Saw records the ordinal once the cache shows the Job: a Job in another namespace than the owner must not count.
		g.wrote(t.listed[i].owner, 0, &t.listed[i].job)
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
		err := t.size.Read(func(limit int64) error { return g.listPage(ctx, t, limit) })
		if apierrors.IsResourceExpired(err) {
			t.namespaces = nil
		}
		if err != nil {
			return err
		}
		if t.next == "" {
			t.namespaces = t.namespaces[1:]
		}
	}
	return nil
}

// listPage lists the metadata of up to limit further Jobs of the first namespace. Of each page it keeps only the Jobs
// that the gate has to wait for: others may have metadata of any size.
func (g *Gate) listPage(ctx context.Context, t *takeover, limit int64) error {
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	err := g.live.List(ctx, page,
		client.InNamespace(t.namespaces[0]), client.Limit(limit), client.Continue(t.next))
	if err != nil {
		return err
	}
	var listed []former
	for i := range page.Items {
		job := &page.Items[i].ObjectMeta
		_, owner, ok := jobs.Owner(job)
		if !ok {
			continue
		}
		shown, err := g.shows(ctx, writeOf(job))
		if err != nil {
			return err
		}
		if !shown {
			listed = append(listed, former{owner, metav1.ObjectMeta{
				Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion,
			}})
		}
	}
	t.listed, t.next = append(t.listed, listed...), page.Continue
	return nil
}

// watched returns the namespaces to list. NamespaceAll stands for all of them.
func (g *Gate) watched() []string {
	if len(g.namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return g.namespaces
}
