// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/test/kit/examples"
)

const git, autoscaler = "git", "autoscaler"

// apply applies an object, and takes no field from another manager.
func apply(t *testing.T, api client.Client, object *unstructured.Unstructured, manager string) error {
	t.Helper()
	return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner(manager))
}

// fields are those of a spec, as a manager that knows nothing else applies them.
func fields(of *unstructured.Unstructured, spec map[string]any) *unstructured.Unstructured {
	part := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	part.SetGroupVersionKind(of.GroupVersionKind())
	part.SetNamespace(of.GetNamespace())
	part.SetName(of.GetName())
	return part
}

// What is in Git, a second tool that owns a field of its own, and the operator do not get into each other's way.
func TestTwoManagersApply(t *testing.T) {
	t.Parallel()
	samples, err := examples.Samples(root)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, sample := range samples {
		t.Run(sample.GetName(), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			api := newClient(g)
			sample.SetNamespace(control.NewNamespace(t, "apply"))
			g.Expect(apply(t, api, sample, git)).To(Succeed())
			g.Expect(apply(t, api, fields(sample, map[string]any{"minReplicas": int64(1)}), autoscaler)).To(Succeed())

			var stored scaledjobv1.ScaledJob
			key := client.ObjectKeyFromObject(sample)
			g.Expect(api.Get(t.Context(), key, &stored)).To(Succeed())
			status := stored.Status.DeepCopy()
			status.ObservedGeneration, status.Queue = stored.Generation, "emails"
			record := report.NewStatusRecord()
			writer := report.StatusWriter{Client: api}
			_, err := writer.WriteAtOnce(t.Context(), &stored, &record, status)
			g.Expect(err).NotTo(HaveOccurred())

			g.Expect(api.Get(t.Context(), key, &stored)).To(Succeed())
			version := stored.ResourceVersion
			g.Expect(apply(t, api, sample, git)).To(Succeed())
			g.Expect(apply(t, api, fields(sample, map[string]any{"minReplicas": int64(1)}), autoscaler)).To(Succeed())
			g.Expect(api.Get(t.Context(), key, &stored)).To(Succeed())
			g.Expect(stored.ResourceVersion).To(Equal(version), "nothing has changed, so nothing is written")
			g.Expect(stored.Spec.MinReplicas).To(Equal(int32(1)))
			g.Expect(stored.Status.Queue).To(Equal("emails"))

			err = apply(t, api, fields(sample, map[string]any{"threshold": int64(99)}), autoscaler)
			g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "a field of Git: %v", err)
		})
	}
}

// kubectl patch takes suspend, which a manifest that does not set it leaves alone.
func TestSuspendIsNotTakenBackByAManifestWithoutIt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	manifest := object(g, at("metadata.name", "suspended-by-another"))
	g.Expect(apply(t, api, manifest, git)).To(Succeed())
	stop := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
	g.Expect(api.Patch(t.Context(), manifest.DeepCopy(), stop)).To(Succeed())
	g.Expect(apply(t, api, manifest, git)).To(Succeed())
	var stored scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(manifest), &stored)).To(Succeed())
	g.Expect(stored.Spec.Suspend).To(BeTrue())
}
