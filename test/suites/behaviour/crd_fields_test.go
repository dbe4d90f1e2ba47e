// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/preflight"
)

// The operator is upgraded before the CRD, and waits. Later the operator is rolled back, and the CRD is not: what the operator
// does not know, it does not do.
func TestOperatorAndCRDOfDifferentVersions(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.installFields(func(spec *apiextensionsv1.JSONSchemaProps) { delete(spec.Properties, "suspend") })
	s.awaitFields(preflight.Fields{Missing: []string{"spec.suspend"}})
	upgraded := startEarly(t, s.control.Config())
	s.Eventually(upgraded.Logs).Should(And(
		ContainSubstring("older than this operator; waiting for that of this version"), ContainSubstring("spec.suspend")))
	s.create("worker")
	s.installFields(func(*apiextensionsv1.JSONSchemaProps) {})
	awaitReady(t, upgraded)
	s.expectJobs("worker", 3)
	s.Expect(upgraded.Kill()).To(Succeed())

	s.installFields(func(spec *apiextensionsv1.JSONSchemaProps) {
		spec.Properties["priority"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		template := spec.Properties["jobTemplate"].Properties["spec"]
		template.Properties["newInKubernetes"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	s.awaitFields(preflight.Fields{Unknown: []string{"spec.priority"}})
	s.create("newer", func(object map[string]any) { object["spec"].(map[string]any)["priority"] = int64(7) })
	s.create("with-a-newer-template", func(object map[string]any) {
		template := object["spec"].(map[string]any)["jobTemplate"].(map[string]any)["spec"].(map[string]any)
		template["newInKubernetes"] = "yes"
	})
	rolledBack := startEarly(t, s.control.Config())
	awaitReady(t, rolledBack)
	s.Expect(rolledBack.Logs()).To(And(ContainSubstring("the CRD is newer than this operator"), ContainSubstring("spec.priority")))
	s.expectJobs("with-a-newer-template", 3)
	s.Eventually(s.stalled).WithArguments("newer").Should(And(
		HaveField("Reason", scaledjobv1.ReasonInvalidSpec), HaveField("Message", ContainSubstring(`"spec.priority"`))))
	s.Expect(s.jobsOf("newer")).To(BeEmpty())

	s.Expect(s.admin.Patch(t.Context(), olderObject("newer"),
		client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/spec/priority"}]`)))).To(Succeed())
	s.expectJobs("newer", 3)
	s.Expect(s.admin.Patch(t.Context(), olderObject("worker"),
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"priority":1,"threshold":3}}`)))).To(Succeed())
	s.Eventually(s.stalled).WithArguments("worker").ShouldNot(BeNil())
	s.Expect(s.jobsOf("worker")).To(HaveLen(3), "running Jobs are left alone")
}

// installFields installs the CRD of this version with a change to the schema of the spec.
func (s *olderCluster) installFields(change func(spec *apiextensionsv1.JSONSchemaProps)) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	s.Expect(err).NotTo(HaveOccurred())
	manifest, err := os.ReadFile(files[0])
	s.Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	s.Expect(yaml.Unmarshal(manifest, &crd)).To(Succeed())
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]
	change(&spec)
	root.Properties["spec"] = spec
	manifest, err = yaml.Marshal(crd)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.control.Apply(s.t.Context(), bytes.NewReader(manifest))).To(Succeed())
}

// awaitFields returns when the API server publishes a schema with these differences, which is later than it serves it.
func (s *olderCluster) awaitFields(want preflight.Fields) {
	s.t.Helper()
	schemas, err := discovery.NewDiscoveryClientForConfig(s.control.Config())
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() (preflight.Fields, error) {
		document, err := preflight.ReadSchemas(s.t.Context(), schemas.RESTClient())
		if err != nil {
			return preflight.Fields{}, err
		}
		return preflight.CompareFields(document)
	}).Should(Equal(want))
}

// stalled is the condition Stalled of a ScaledJob; nil if it has none.
func (s *olderCluster) stalled(name string) (*metav1.Condition, error) {
	object := olderObject(name)
	if err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return nil, err
	}
	var found scaledjobv1.ScaledJob
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &found)
	return apimeta.FindStatusCondition(found.Status.Conditions, scaledjobv1.ConditionStalled), err
}
