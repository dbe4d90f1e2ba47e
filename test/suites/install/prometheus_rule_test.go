// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

const ruleTitle = "PrometheusRule ops/jobs-scaledjob-operator-manager"

// The rules are one file, which Prometheus takes as it is.
func TestRulesAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root := must.Get(programs.Root())(g)
	var file map[string]any
	g.Expect(yaml.Unmarshal(read(g, filepath.Join(root, "config", "prometheus"), "rules.yaml"), &file)).To(Succeed())
	kustomized := must.Get(render.Kustomizations(t.Context(), "prometheus"))(g)
	g.Expect(kustomized[0].Object["spec"]).To(BeComparableTo(file))
}

func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	r := renderSet(t, "PrometheusRule")
	r.Expect(r.objects[ruleTitle].GetLabels()).To(HaveKeyWithValue("release", "prometheus"))
	r.Expect(r.objects[ruleTitle].GetAnnotations()).To(HaveKeyWithValue("example.com/team", "platform"))
	links := 0
	for field, value := range r.fields(ruleTitle, "spec", "groups") {
		if strings.HasSuffix(field, ".runbook_url") {
			links++
			r.Expect(value).To(MatchRegexp(`^https://wiki\.example/runbooks/[\w-]+\.md#[\w-]+$`))
		}
	}
	r.Expect(links).To(BeNumerically(">", 10))
	byDefault := renderSet(t, "defaults")
	byDefault.Expect(byDefault.titles("PrometheusRule")).To(BeEmpty())
}
