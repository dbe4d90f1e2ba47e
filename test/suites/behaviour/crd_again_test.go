// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// The CRD is deleted, and all ScaledJobs with it, and installed again while the operator runs.
func TestCRDIsInstalledAgain(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.installSchema()
	s.startOperator()
	rarely := func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, int64(3600), "spec", "pollingIntervalSeconds")).To(Succeed())
	}
	s.create("healthy", rarely)
	s.expectJobs("healthy", 3)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName("scaledjobs.batch.miracle.dev")
	s.Expect(s.admin.Delete(t.Context(), crd)).To(Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.admin.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	}).Should(BeTrue())
	s.Expect(scene.Pause(t.Context(), 5*time.Second)).To(Succeed()) // for the operator to notice

	s.installSchema()
	s.Eventually(func() error {
		object := olderObject("probe")
		return client.IgnoreNotFound(s.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}).Should(Succeed())
	s.create("healthy", rarely)
	s.create("another", rarely)
	s.expectJobs("another", 3)
	s.expectJobs("healthy", 6) // there is no garbage collector here
}
