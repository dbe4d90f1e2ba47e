// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"

// object is what all objects have.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// objects reads a manifest.
func objects(g *WithT, manifest string) (all []object, texts []string) {
	for text := range strings.SplitSeq(manifest, "\n---\n") {
		var read object
		g.Expect(yaml.Unmarshal([]byte(text), &read)).To(Succeed())
		all, texts = append(all, read), append(texts, text)
	}
	return all, texts
}

func TestManifestsAreApart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), "registry.example/operator")
	g.Expect(os.MkdirAll(r.dist, 0o755)).To(Succeed())
	g.Expect(r.writeCRDs(t.Context())).To(Succeed())
	g.Expect(r.writeManifest(t.Context(), digest)).To(Succeed())

	crds, _ := objects(g, r.read(t, "crds.yaml"))
	g.Expect(crds).NotTo(BeEmpty())
	for _, crd := range crds {
		g.Expect(crd.Kind).To(Equal("CustomResourceDefinition"))
	}
	all, texts := objects(g, r.read(t, "install.yaml"))
	for n, each := range all {
		g.Expect(each.Kind).NotTo(Equal("CustomResourceDefinition"))
		// The command that removes the operator selects by this label. It must spare the Namespace.
		label := HaveKeyWithValue("app.kubernetes.io/name", project)
		switch each.Kind {
		case "Namespace":
			g.Expect(each.Labels).NotTo(label)
		case "Deployment":
			var deployment appsv1.Deployment
			g.Expect(yaml.Unmarshal([]byte(texts[n]), &deployment)).To(Succeed())
			g.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example/operator:v1.2.3@" + digest))
			fallthrough
		default:
			g.Expect(each.Labels).To(label, "%s %s", each.Kind, each.Name)
		}
	}
}

func TestManifestsSayHowToUseThem(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	g.Expect(os.MkdirAll(r.dist, 0o755)).To(Succeed())
	g.Expect(r.writeCRDs(t.Context())).To(Succeed())
	g.Expect(r.writeManifest(t.Context(), "")).To(Succeed())
	g.Expect(r.read(t, "crds.yaml")).To(And(
		HavePrefix("# The CRDs of scaledjob-operator v1.2.3"),
		ContainSubstring("#   kubectl apply -f crds.yaml\n"),
		ContainSubstring("deletes all ScaledJobs and all their Jobs, running ones too."),
	))
	g.Expect(r.read(t, "install.yaml")).To(And(
		HavePrefix("# scaledjob-operator v1.2.3 without its CRDs"),
		ContainSubstring("#   kubectl delete -f install.yaml -l app.kubernetes.io/name=scaledjob-operator\n"),
		ContainSubstring("        image: scaledjob-operator:v1.2.3\n"),
	))
}

func TestAnImageThatCannotBeSetIsNoticed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), "registry.example/operator")
	file := filepath.Join("config", "manager", "manager.yaml")
	content := must.Get(os.ReadFile(filepath.Join(r.root, file)))(g)
	write(t, r.root, file, strings.ReplaceAll(string(content), "image: scaledjob-operator:", "image: other:"))
	g.Expect(r.printManifest(t.Context())).To(MatchError(
		`config/default: it needs the line "        image: scaledjob-operator:latest", once`))
	write(t, r.root, file, "kind: [")
	g.Expect(r.printManifest(t.Context())).To(MatchError(ContainSubstring("manager.yaml")))
}
