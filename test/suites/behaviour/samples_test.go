// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const (
	samples       = "../../../config/samples"
	kustomization = "kustomization.yaml"
)

// sampleFiles are the names of all samples.
func sampleFiles(g Gomega) []string {
	paths, err := filepath.Glob(filepath.Join(samples, "*.y*ml"))
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, path := range paths {
		if name := filepath.Base(path); name != kustomization {
			names = append(names, name)
		}
	}
	g.Expect(names).NotTo(BeEmpty())
	return names
}

// Strictly: neither an unknown field nor a warning passes.
func apply(t *testing.T, namespace string, what ...string) (objects []string, err error) {
	t.Helper()
	args := []string{"apply", "--validate=strict", "--warnings-as-errors", "--output=name", "--namespace=" + namespace}
	output, err := shared.Cluster.Kubectl(t.Context(), append(args, what...)...)
	return strings.Fields(output), err
}

// TestControlMisspeltSample is the control. The suite kueue applies the sample that needs Kueue.
func TestEverySampleIsApplied(t *testing.T) {
	t.Parallel()
	const needsKueue = "kueue.yaml"
	for _, name := range slices.DeleteFunc(sampleFiles(NewWithT(t)), func(name string) bool { return name == needsKueue }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace := newNamespace(t)
			objects, err := apply(t, namespace, "--filename="+filepath.Join(samples, name))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(objects).NotTo(BeEmpty())
			for _, object := range objects {
				if strings.HasPrefix(object, "scaledjob.") {
					_, err := shared.Cluster.Kubectl(t.Context(), "wait", object,
						"--for=condition=TemplateValid", "--timeout=60s", "--namespace="+namespace)
					g.Expect(err).NotTo(HaveOccurred())
				}
			}
		})
	}
}

func TestSamplesAreAppliedTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(samples, kustomization))
	g.Expect(err).NotTo(HaveOccurred())
	var listed struct{ Resources []string }
	g.Expect(yaml.Unmarshal(content, &listed)).To(Succeed())
	// These need a Redis or a controller that is not among the samples.
	others := []string{"cluster.yaml", "kueue.yaml", "sentinel.yaml"}
	g.Expect(append(listed.Resources, others...)).To(ConsistOf(sampleFiles(g)))
	objects, err := apply(t, newNamespace(t), "--kustomize="+samples)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(objects)).To(BeNumerically(">=", len(listed.Resources)))
}

func TestControlMisspeltSample(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(samples, "minimal.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	misspelt := filepath.Join(t.TempDir(), "misspelt.yaml")
	g.Expect(os.WriteFile(misspelt, []byte(strings.ReplaceAll(string(content), "threshold:", "treshold:")), 0o600)).To(Succeed())
	_, err = apply(t, newNamespace(t), "--filename="+misspelt)
	g.Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.treshold"`)))
}
