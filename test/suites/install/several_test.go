// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

func TestReleasesInOneNamespaceShareNothing(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][2]string{
		"with ClusterRoles": {`crds: {enabled: false}`, `crds: {enabled: false}`},
		"with Roles":        {"{crds: {enabled: false}, watchNamespaces: [team-a]}", "{crds: {enabled: false}, watchNamespaces: [team-b]}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			// The first has the names, and the Lease, of the manifests.
			first := render.Release{Name: "scaledjob-operator", Namespace: render.Namespace, Values: values[0]}
			second := render.Release{Name: "second", Namespace: render.Namespace, Values: values[1]}
			one, two := must.Get(first.Objects(t.Context()))(g), must.Get(second.Objects(t.Context()))(g)
			g.Expect(shared(g, one, two)).To(BeEmpty())
			g.Expect(shared(g, one, one)).NotTo(BeEmpty(), "the control")
			g.Expect(leases(g, one)).To(BeEmpty(), "the default of the flag")
			g.Expect(leases(g, two)).To(ConsistOf("--leader-election-id=second-scaledjob-operator.batch.miracle.dev"))
		})
	}
}

// Releases that watch the same namespaces can share a Lease, so that one of them stands by.
func TestALeaseForSeveralReleases(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for values, lease := range map[string][]string{
		`leaderElection: {id: scaledjob-operator.batch.miracle.dev}`: nil,
		`leaderElection: {id: ours}`:                                 {"--leader-election-id=ours"},
		`leaderElection: {id: null}`:                                 {"--leader-election-id=jobs-scaledjob-operator.batch.miracle.dev"},
		`{replicas: 1, leaderElection: {enabled: false, id: ours}}`:  nil,
	} {
		objects := must.Get(render.Release{Name: "jobs", Namespace: render.Namespace, Values: values}.Objects(t.Context()))(g)
		g.Expect(leases(g, objects)).To(ConsistOf(lease), values)
	}
}

// The overlay of the page makes an installation of its own, also in the namespace of another such overlay.
func TestOverlayForASecondInstallation(t *testing.T) {
	skip.UnderShort(t, "TestALeaseForSeveralReleases has two installations; the suite install renders the overlay")
	t.Parallel()
	g := NewWithT(t)
	overlay := onPage(t, "namespaced.md", "team-b/kustomization.yaml")
	b := build(t, overlay)
	c := build(t, strings.NewReplacer("team-b", "team-c", "namespace: team-c", "namespace: team-b").Replace(overlay))
	first := must.Get(render.Kustomizations(t.Context(), "default"))(g)
	g.Expect(shared(g, first, b)).To(BeEmpty())
	g.Expect(shared(g, b, c)).To(BeEmpty())
	g.Expect(leases(g, b)).To(ConsistOf("--leader-election-id=team-b.batch.miracle.dev"))
	for _, object := range b {
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		g.Expect(err).NotTo(HaveOccurred())
		for _, subject := range subjects {
			g.Expect(subject).To(And(HaveKeyWithValue("namespace", "team-b"), HaveKeyWithValue("name", "team-b-scaledjob-operator-manager")))
		}
	}
}

// build renders a kustomization whose base is config/default, and leaves out the Namespace.
func build(t *testing.T, kustomization string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	folder, root := t.TempDir(), must.Get(programs.Root())(g)
	base := must.Get(filepath.Rel(folder, filepath.Join(root, "config", "default")))(g)
	g.Expect(kustomization).To(ContainSubstring("../config/default"))
	kustomization = strings.ReplaceAll(kustomization, "../config/default", base)
	g.Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o600)).To(Succeed())
	objects := must.Get(manifests.Parse(must.Get(programs.Kustomize(t.Context(), folder))(g)))(g)
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == "Namespace" })
}

// shared are the objects that both have, and the selectors of one that select the Pods of the other.
func shared(g Gomega, one, two []*unstructured.Unstructured) []string {
	var found []string
	for _, pair := range [][2][]*unstructured.Unstructured{{one, two}, {two, one}} {
		var titles []string
		for _, object := range pair[0] {
			titles = append(titles, title(object))
		}
		for _, object := range pair[1] {
			if slices.Contains(titles, title(object)) {
				found = append(found, title(object))
			}
			if selectsPodsOf(g, object, pair[0]) {
				found = append(found, title(object)+" selects Pods of the other")
			}
		}
	}
	return found
}

// selectsPodsOf reports whether an object selects the Pods of an installation in its namespace.
func selectsPodsOf(g Gomega, object *unstructured.Unstructured, installation []*unstructured.Unstructured) bool {
	path := map[string][]string{
		"Service": {"spec", "selector"}, "Deployment": {"spec", "selector", "matchLabels"}, "PodDisruptionBudget": {"spec", "selector", "matchLabels"},
	}[object.GetKind()]
	if path == nil {
		return false
	}
	selector, _, err := unstructured.NestedStringMap(object.Object, path...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(selector).NotTo(BeEmpty(), title(object))
	deployment := ofKind(installation, "Deployment")[0]
	of, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "labels")
	g.Expect(err).NotTo(HaveOccurred())
	return object.GetNamespace() == deployment.GetNamespace() && labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

// leases are the arguments that name the Lease.
func leases(g Gomega, objects []*unstructured.Unstructured) []string {
	args := must.Get(render.Arguments(objects))(g)
	return slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--leader-election-id") })
}
