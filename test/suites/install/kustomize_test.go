// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// nameLabel is the label by which users remove the operator.
const nameLabel = "app.kubernetes.io/name"

// What is removed by the label must be all of the operator, but neither the Namespace with whatever else is in it, nor
// the CRD with all ScaledJobs.
func TestTheLabelForRemovalIsOnAllButTheNamespaceAndTheCRD(t *testing.T) {
	t.Parallel()
	kustomized, charted := both(t)
	for _, objects := range [][]*unstructured.Unstructured{kustomized, charted} {
		for _, object := range objects {
			g := NewWithT(t)
			labels := object.GetLabels()
			g.Expect(labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "scaledjob-operator"), title(object))
			switch object.GetKind() {
			case "Namespace", "CustomResourceDefinition":
				g.Expect(labels).NotTo(HaveKey(nameLabel), title(object))
			default:
				g.Expect(labels).To(HaveKeyWithValue(nameLabel, "scaledjob-operator"), title(object))
				g.Expect(labels).To(HaveKey("app.kubernetes.io/component"), title(object))
			}
		}
	}
}

// Who upgrades with kubectl apply keeps objects that have lost their name, and can't change a selector.
func TestNamesAndSelectorsStay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := must.Get(render.Kustomizations(t.Context(), "default"))(g)
	var titles []string
	for _, object := range objects {
		titles = append(titles, title(object))
	}
	g.Expect(titles).To(ConsistOf(
		"Namespace scaledjob-operator-system",
		"ServiceAccount scaledjob-operator-system/scaledjob-operator-manager",
		"ClusterRole scaledjob-operator-manager", "ClusterRoleBinding scaledjob-operator-manager",
		"Role scaledjob-operator-system/scaledjob-operator-manager",
		"RoleBinding scaledjob-operator-system/scaledjob-operator-manager",
		"ClusterRole scaledjob-operator-secret-reader", "ClusterRoleBinding scaledjob-operator-secret-reader",
		"ClusterRole scaledjob-operator-metrics-reader", "ClusterRole scaledjob-operator-scaledjob-viewer",
		"ClusterRole scaledjob-operator-scaledjob-editor", "ClusterRole scaledjob-operator-scaledjob-admin",
		"Deployment scaledjob-operator-system/scaledjob-operator-manager",
		"Service scaledjob-operator-system/scaledjob-operator-metrics",
		"PodDisruptionBudget scaledjob-operator-system/scaledjob-operator-manager",
	))
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			selector, _, err := unstructured.NestedMap(object.Object, "spec", "selector")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(selector).To(Equal(map[string]any{"matchLabels": map[string]any{nameLabel: "scaledjob-operator"}}))
		}
	}
}
