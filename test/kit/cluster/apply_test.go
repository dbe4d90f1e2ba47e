// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestInstalledKindIsServed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(control.InstallCRDs(t.Context(), "testdata")).To(Succeed())

	widget := newWidget(newNamespace(t))
	g.Expect(newClient(t, control.Config()).Create(t.Context(), widget)).To(Succeed())
}

func TestInstallCRDsOfNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(control.InstallCRDs(t.Context(), t.TempDir())).NotTo(Succeed())
	g.Expect(control.InstallCRDs(t.Context(), filepath.Join(t.TempDir(), "absent.yaml"))).To(MatchError(os.ErrNotExist))
}

func TestApplyTakesAKindAndItsObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	definition, err := os.ReadFile("testdata/widgets.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	gadgets := strings.NewReplacer("widget", "gadget", "Widget", "Gadget").Replace(string(definition))

	g.Expect(control.Apply(t.Context(), strings.NewReader("# A comment alone.\n---\n"+gadgets+`
---
apiVersion: cluster.test/v1
kind: Gadget
metadata: {name: first}
`))).To(Succeed())
	gadget := &unstructured.Unstructured{}
	gadget.SetAPIVersion("cluster.test/v1")
	gadget.SetKind("Gadget")
	key := client.ObjectKey{Namespace: "default", Name: "first"}
	g.Expect(newClient(t, control.Config()).Get(t.Context(), key, gadget)).To(Succeed())
}

func TestApplyUpdates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	key := client.ObjectKey{Namespace: newNamespace(t), Name: "settings"}
	c := newClient(t, control.Config())
	var settings corev1.ConfigMap
	for _, value := range []string{"old", "new"} {
		g.Expect(control.Apply(t.Context(), strings.NewReader(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: `+key.Namespace+`}
data: {key: `+value+`}
`))).To(Succeed())
		g.Expect(c.Get(t.Context(), key, &settings)).To(Succeed())
		g.Expect(settings.Data).To(HaveKeyWithValue("key", value))
	}
}

func TestApplyNamesTheObjectItFailedOn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	err := control.Apply(t.Context(), strings.NewReader("apiVersion: no.such/v1\nkind: Thing\nmetadata: {name: one}\n"))
	g.Expect(err).To(And(MatchError(apimeta.IsNoMatchError, "IsNoMatchError"), MatchError(ContainSubstring("Thing /one"))))
	g.Expect(control.Apply(t.Context(), strings.NewReader("{"))).To(MatchError(ContainSubstring("reading a manifest")))
}

func newWidget(namespace string) *unstructured.Unstructured {
	widget := &unstructured.Unstructured{}
	widget.SetAPIVersion("cluster.test/v1")
	widget.SetKind("Widget")
	widget.SetNamespace(namespace)
	widget.SetName("widget")
	return widget
}
