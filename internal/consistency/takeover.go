// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"context"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// takeoverPage is how many Jobs are listed with one request.
const takeoverPage = 500

// takeover lets one caller do what must be done once, and the others wait for it. What failed is tried again by the next caller.
type takeover struct {
	mu   sync.Mutex
	done bool
}

func (t *takeover) once(do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return nil
	}
	if err := do(); err != nil {
		return err
	}
	t.done = true
	return nil
}

// takeOver notes every Job of a ScaledJob that exists now and that the cache has not reached: whoever led before may have created it.
func (g *Gate) takeOver(ctx context.Context) error {
	if err := g.stores.Check(); err != nil {
		return err
	}
	namespaces := g.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var existing []metav1.PartialObjectMetadata
	for _, namespace := range namespaces {
		listed, err := g.listLive(ctx, namespace)
		if err != nil {
			return fmt.Errorf("listing the Jobs of a former leader: %w", err)
		}
		existing = append(existing, listed...)
	}
	for i := range existing {
		g.inherit(&existing[i].ObjectMeta)
	}
	return nil
}

func (g *Gate) listLive(ctx context.Context, namespace string) (listed []metav1.PartialObjectMetadata, err error) {
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	for {
		err := g.live.List(ctx, page, client.InNamespace(namespace), client.Limit(takeoverPage), client.Continue(page.Continue))
		if err != nil {
			return nil, err
		}
		listed = append(listed, page.Items...)
		if page.Continue == "" {
			return listed, nil
		}
	}
}

// inherit awaits a Job that a former leader made.
func (g *Gate) inherit(job *metav1.ObjectMeta) {
	controller := metav1.GetControllerOfNoCopy(job)
	if controller == nil || !isScaledJob(controller) || g.stores.reached(job.ResourceVersion) {
		return
	}
	ordinal, _ := jobs.Ordinal(job)
	g.Wrote(controller.UID, ordinal, job)
}

func isScaledJob(ref *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && version.Group == scaledjobv1.GroupVersion.Group && ref.Kind == "ScaledJob"
}
