// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/pages"
	"miracle.dev/scaledjob-operator/internal/retry"
)

// Takeover returns a source that requests nothing, and that has synced when the gate knows the Jobs of previous
// leaders. A controller with this source runs no reconcile before.
func (g *Gate) Takeover() source.SyncingSource { return takeover{g} }

type takeover struct{ gate *Gate }

// Start implements source.Source.
func (takeover) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

func (takeover) String() string { return "the Jobs of previous leaders" }

// WaitForSync lists all Jobs of ScaledJobs. The gate waits for those that the cache does not show yet: a previous
// leader may have created them. It returns an error only if ctx ends.
func (t takeover) WaitForSync(ctx context.Context) error {
	for _, namespace := range t.gate.watched() {
		if err := t.list(ctx, namespace); err != nil {
			return fmt.Errorf("listing the Jobs of previous leaders: %w", err)
		}
	}
	return nil
}

// list lists the Jobs of a namespace, page by page. It retries a page that fails, and starts again if the API server
// does not accept the continue token any more.
func (t takeover) list(ctx context.Context, namespace string) error {
	var size pages.Size
	var failed retry.Retry
	token := ""
	for {
		next, err := t.page(ctx, namespace, token, &size)
		failed.Note(err, time.Now())
		switch {
		case err == nil && next == "":
			return nil
		case err == nil:
			token = next
			continue
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case apierrors.IsResourceExpired(err) || apierrors.IsBadRequest(err):
			token = ""
		}
		ctrl.LoggerFrom(ctx).Info("failed to list the Jobs of previous leaders, and will retry; no ScaledJob is reconciled before",
			"cause", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(failed.Wait(time.Now())):
		}
	}
}

// page lists the Jobs that follow on the continue token, and makes the gate wait for them. It returns the next token;
// it is empty after the last page.
func (t takeover) page(ctx context.Context, namespace, token string, size *pages.Size) (next string, err error) {
	var page *metav1.PartialObjectMetadataList
	err = size.Read(func(limit int64) error {
		page = jobMetadata()
		return t.gate.live.List(ctx, page, client.InNamespace(namespace), client.Limit(limit), client.Continue(token))
	})
	if err != nil {
		return "", err
	}
	return page.Continue, t.await(ctx, page)
}

// jobMetadata returns an empty list of the metadata of Jobs.
func jobMetadata() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	return list
}

// await makes the gate wait for the owned Jobs among these that the cache does not show. The gate learns the ordinal
// when the cache shows the Job: a Job in another namespace than its owner must not count.
func (t takeover) await(ctx context.Context, page *metav1.PartialObjectMetadataList) error {
	for i := range page.Items {
		job := &page.Items[i].ObjectMeta
		_, owner, owned := jobs.Owner(job)
		if !owned {
			continue
		}
		shown, err := t.gate.shows(ctx, writeOf(job))
		switch {
		case err != nil:
			return err
		case !shown:
			t.gate.recordCreate(owner, 0, job)
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
