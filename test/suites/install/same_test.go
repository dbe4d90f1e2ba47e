// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// same is the release that must be the same as the kustomizations.
var same = render.Release{Name: "scaledjob-operator", Namespace: "scaledjob-operator-system"}

func TestChartAndKustomizationsAreTheSame(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	kustomized, charted := both(t)
	g.Expect(differences(kustomized, charted)).To(BeEmpty())
}

// What a value adds to the chart is what users apply otherwise.
func TestWhatAValueAddsIsTheSame(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := must.Get(manifests.Parse(onPage(t, "monitor.md", "service-monitor.yaml")))(g)
	for kind, of := range map[string]struct {
		values string
		number int
		others []*unstructured.Unstructured
	}{
		"ConfigMap":      {render.Sets["dashboards"], 3, must.Get(render.Kustomizations(t.Context(), "grafana"))(g)},
		"PrometheusRule": {`prometheusRule: {enabled: true}`, 1, must.Get(render.Kustomizations(t.Context(), "prometheus"))(g)},
		"ServiceMonitor": {`metrics: {serviceMonitor: {enabled: true}}`, 1, page},
	} {
		with := same
		with.Values = of.values
		charted := ofKind(must.Get(with.Objects(t.Context()))(g), kind)
		g.Expect(charted).To(HaveLen(of.number), kind)
		g.Expect(differences(of.others, charted)).To(BeEmpty())
	}
}

func ofKind(objects []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	isOther := func(object *unstructured.Unstructured) bool { return object.GetKind() != kind }
	return slices.DeleteFunc(slices.Clone(objects), isOther)
}

// The comparison is worth something only if it sees whatever differs.
func TestTheComparisonSeesEachDifference(t *testing.T) {
	t.Parallel()
	kustomized, charted := both(t)
	for name, change := range map[string]struct {
		change func(g Gomega, all []*unstructured.Unstructured) []*unstructured.Unstructured
		seen   string
	}{
		"an argument": {
			set("Deployment", "--no-such-flag", "spec", "template", "spec", "containers", "0", "args", "1"),
			"Deployment scaledjob-operator-system/scaledjob-operator-manager: spec.template.spec.containers.0.args.1: " +
				"kustomize --metrics-bind-address=:8443, chart --no-such-flag",
		},
		"a rule": {
			set("ClusterRole", "list", "rules", "0", "verbs", "0"),
			"ClusterRole scaledjob-operator-manager: rules.0.verbs.0: kustomize create, chart list",
		},
		"a missing verb":    {set("ClusterRole", nil, "rules", "0", "verbs"), "rules.0.verbs.0: kustomize create, chart nothing"},
		"a further field":   {set("ClusterRole", true, "immutable"), "immutable: kustomize nothing, chart true"},
		"a label":           {set("Service", "x", "metadata", "labels", "app.kubernetes.io/name"), "metadata.labels.app.kubernetes.io/name"},
		"a selector":        {set("Service", "x", "spec", "selector", "app.kubernetes.io/name"), "spec.selector.app.kubernetes.io/name"},
		"a missing object":  {drop("PodDisruptionBudget"), "PodDisruptionBudget scaledjob-operator-system/scaledjob-operator-manager: only in kustomize"},
		"an empty field":    {set("Service", map[string]any{}, "status"), "status: kustomize nothing, chart map[]"},
		"the CRD's schema":  {set("CustomResourceDefinition", "Cluster", "spec", "scope"), "spec.scope: kustomize Namespaced, chart Cluster"},
		"the image's name":  {set("Deployment", "other:0.0.0", "spec", "template", "spec", "containers", "0", "image"), "chart other"},
		"another namespace": {set("Service", "default", "metadata", "namespace"), "Service default/scaledjob-operator-metrics: only in the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			changed := change.change(g, copies(charted))
			g.Expect(differences(kustomized, changed)).To(ContainElement(ContainSubstring(change.seen)))
		})
	}
}

func both(t *testing.T) (kustomized, charted []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	return must.Get(render.Kustomizations(t.Context(), "crd", "default"))(g), must.Get(same.Objects(t.Context()))(g)
}

func copies(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		all[i] = object.DeepCopy()
	}
	return all
}

// set returns a change of a field of the first object of a kind.
func set(kind string, to any, path ...string) func(Gomega, []*unstructured.Unstructured) []*unstructured.Unstructured {
	return func(g Gomega, all []*unstructured.Unstructured) []*unstructured.Unstructured {
		var at any = ofKind(all, kind)[0].Object
		for _, key := range path[:len(path)-1] {
			at = child(at, key)
		}
		switch last := path[len(path)-1]; parent := at.(type) {
		case map[string]any:
			parent[last] = to
		case []any:
			index := must.Get(strconv.Atoi(last))(g)
			parent[index] = to
		}
		return all
	}
}

func child(at any, key string) any {
	if list, isList := at.([]any); isList {
		index, _ := strconv.Atoi(key)
		return list[index]
	}
	return at.(map[string]any)[key]
}

// drop returns a change that removes the objects of a kind.
func drop(kind string) func(Gomega, []*unstructured.Unstructured) []*unstructured.Unstructured {
	return func(_ Gomega, all []*unstructured.Unstructured) []*unstructured.Unstructured {
		return slices.DeleteFunc(all, func(object *unstructured.Unstructured) bool { return object.GetKind() == kind })
	}
}

// allowed are the keys of which the chart and the kustomizations may have different values: labels, also in selectors,
// and annotations.
var allowed = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart",
	"helm.sh/resource-policy",
}

// differences describes what differs, other than what is allowed to.
func differences(kustomized, charted []*unstructured.Unstructured) []string {
	var found []string
	left, right := byName(kustomized), byName(charted)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if right[name] == nil {
			found = append(found, name+": only in kustomize")
			continue
		}
		found = append(found, fieldsThatDiffer(name, left[name], right[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(right)) {
		if left[name] == nil {
			found = append(found, name+": only in the chart")
		}
	}
	return found
}

func fieldsThatDiffer(object string, left, right map[string]string) []string {
	var found []string
	all := maps.Clone(left)
	maps.Copy(all, right)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		l, inLeft := left[field]
		r, inRight := right[field]
		if l != r || inLeft != inRight {
			found = append(found, fmt.Sprintf("%s: %s: kustomize %s, chart %s", object, field, orNothing(l, inLeft), orNothing(r, inRight)))
		}
	}
	return found
}

func orNothing(value string, found bool) string {
	if !found {
		return "nothing"
	}
	return value
}

// byName returns the fields of objects that must be the same, by kind, namespace and name: not those of the Namespace,
// which Helm makes itself, and the image without its tag.
func byName(objects []*unstructured.Unstructured) map[string]map[string]string {
	const image = "spec.template.spec.containers.0.image"
	named := map[string]map[string]string{}
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			continue
		}
		fields := map[string]string{}
		flatten(fields, "", object.Object)
		if tagged, found := fields[image]; found {
			fields[image], _, _ = strings.Cut(tagged, ":")
		}
		named[title(object)] = fields
	}
	return named
}

func title(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// flatten adds the leaves of a value, by their paths. What is empty is a leaf too.
func flatten(to map[string]string, path string, value any) {
	below := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if !slices.Contains(allowed, key) {
				flatten(to, below(key), field)
			}
		}
		if len(value) > 0 {
			return
		}
	case []any:
		for i, item := range value {
			flatten(to, below(strconv.Itoa(i)), item)
		}
		if len(value) > 0 {
			return
		}
	}
	to[path] = fmt.Sprint(value)
}
