// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/base64"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

func TestTheIconIsThatOfTheDocumentation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	chart := must.Get(render.Chart())(g)
	var metadata struct{ Icon string }
	g.Expect(yaml.Unmarshal(read(g, chart, "Chart.yaml"), &metadata)).To(Succeed())
	encoded, isSVG := strings.CutPrefix(metadata.Icon, "data:image/svg+xml;base64,")
	g.Expect(isSVG).To(BeTrue())
	icon := must.Get(base64.StdEncoding.DecodeString(encoded))(g)
	g.Expect(string(icon)).To(Equal(string(read(g, filepath.Join(chart, "../../docs/images"), "icon.svg"))))
}

// Artifact Hub drops a chart with an annotation that it can't read.
func TestArtifactHubCanReadTheAnnotations(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	chart := must.Get(render.Chart())(g)
	var metadata struct{ Annotations map[string]string }
	g.Expect(yaml.Unmarshal(read(g, chart, "Chart.yaml"), &metadata)).To(Succeed())
	for name, fields := range map[string][]string{
		"changes": {"kind", "description"}, "recommendations": {"url"}, "links": {"name", "url"}, "images": {"name", "image"},
		"crds": {"kind", "version", "name", "displayName", "description"},
	} {
		var entries []map[string]string
		g.Expect(yaml.UnmarshalStrict([]byte(metadata.Annotations["artifacthub.io/"+name]), &entries)).To(Succeed(), name)
		g.Expect(entries).NotTo(BeEmpty(), name)
		for _, entry := range entries {
			for _, field := range fields {
				g.Expect(entry).To(HaveKeyWithValue(field, Not(BeEmpty())), name)
			}
			g.Expect(entry).To(HaveLen(len(fields)), name)
		}
	}
	kinds := regexp.MustCompile(`(?m)^- kind: (\w+)$`).FindAllStringSubmatch(metadata.Annotations["artifacthub.io/changes"], -1)
	for _, kind := range kinds {
		g.Expect(kind[1]).To(BeElementOf("added", "changed", "deprecated", "removed", "fixed", "security"))
	}
	g.Expect(metadata.Annotations["artifacthub.io/operatorCapabilities"]).To(
		BeElementOf("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"))
}
