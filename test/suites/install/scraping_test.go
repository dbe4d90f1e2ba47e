// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// onPage is a YAML block of a page of docs/how-to, by the name of a file in its first line.
func onPage(t *testing.T, page, name string) string {
	t.Helper()
	g := NewWithT(t)
	root := must.Get(programs.Root())(g)
	text := string(read(g, filepath.Join(root, "docs/how-to"), page))
	block := regexp.MustCompile("(?s)```yaml\n# " + regexp.QuoteMeta(name) + "\n(.+?)```").FindStringSubmatch(text)
	g.Expect(block).To(HaveLen(2), name)
	return block[1]
}

// as is an object as one of a type of Go, with no other fields.
func as[T any](g Gomega, object *unstructured.Unstructured) T {
	var typed T
	content := must.Get(yaml.Marshal(object.Object))(g)
	g.Expect(yaml.UnmarshalStrict(content, &typed)).To(Succeed())
	return typed
}

// only is the one object of a kind.
func only[T any](g Gomega, objects []*unstructured.Unstructured, kind string) T {
	found := ofKind(objects, kind)
	g.Expect(found).To(HaveLen(1), kind)
	return as[T](g, found[0])
}

// Whoever applies the roles of the page may read the metrics of the operator that the manifests install, and find its
// Pods.
func TestRolesOfThePageAreForTheManifests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	installed := must.Get(render.Kustomizations(t.Context(), "default"))(g)
	shown := must.Get(manifests.Parse(onPage(t, "monitor.md", "scraping-rbac.yaml")))(g)
	reading := only[rbacv1.ClusterRoleBinding](g, shown, "ClusterRoleBinding")
	finding := only[rbacv1.RoleBinding](g, shown, "RoleBinding")
	role := only[rbacv1.Role](g, shown, "Role")
	g.Expect(finding.Subjects).To(Equal(reading.Subjects))
	g.Expect(finding.RoleRef).To(Equal(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}))
	g.Expect([]string{role.Namespace, finding.Namespace}).To(HaveEach(only[corev1.Service](g, installed, "Service").Namespace))

	readers := slices.DeleteFunc(ofKind(installed, "ClusterRole"), func(object *unstructured.Unstructured) bool {
		return object.GetName() != reading.RoleRef.Name
	})
	g.Expect(readers).To(HaveLen(1))
	g.Expect(reading.RoleRef).To(Equal(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: readers[0].GetName()}))
	g.Expect(as[rbacv1.ClusterRole](g, readers[0]).Rules).To(ConsistOf(rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}))
}

// The scrape configuration of the page keeps the Pods that the manifests create, with the port of their metrics. The
// suite oncall scrapes with it.
func TestScrapeConfigurationOfThePageFindsThePods(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	installed := must.Get(render.Kustomizations(t.Context(), "default"))(g)
	operator := only[appsv1.Deployment](g, installed, "Deployment")
	var shown struct {
		ScrapeConfigs []struct {
			Discovery []struct {
				Role       string
				Namespaces struct{ Names []string }
			} `json:"kubernetes_sd_configs"`
			Relabel []struct {
				Sources []string `json:"source_labels"`
				Regex   string
				Action  string
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	g.Expect(yaml.Unmarshal([]byte(onPage(t, "monitor.md", "prometheus.yml")), &shown)).To(Succeed())
	g.Expect(shown.ScrapeConfigs).To(HaveLen(1))
	scrape := shown.ScrapeConfigs[0]
	g.Expect(scrape.Discovery).To(HaveLen(1))
	g.Expect(scrape.Discovery[0].Role).To(Equal("pod"))
	g.Expect(scrape.Discovery[0].Namespaces.Names).To(ConsistOf(operator.Namespace))

	keep := scrape.Relabel[0]
	g.Expect(keep.Action).To(Equal("keep"))
	g.Expect(keep.Sources).To(Equal([]string{
		"__meta_kubernetes_pod_label_" + strings.NewReplacer(".", "_", "/", "_").Replace(nameLabel), "__meta_kubernetes_pod_container_port_name",
	}))
	var kept []int32
	pods := operator.Spec.Template
	for _, port := range pods.Spec.Containers[0].Ports {
		if regexp.MustCompile("^(?:" + keep.Regex + ")$").MatchString(pods.Labels[nameLabel] + ";" + port.Name) {
			kept = append(kept, port.ContainerPort)
		}
	}
	g.Expect(kept).To(ConsistOf(only[corev1.Service](g, installed, "Service").Spec.Ports[0].Port))
}
