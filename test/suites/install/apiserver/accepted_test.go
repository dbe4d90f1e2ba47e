// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// representative are the sets that have most of the fields of the others.
var representative = []string{
	"Role-only", "annotated", "certificates and Roles", "dashboards elsewhere", "defaults", "every field of the Pod", "every flag",
	"NetworkPolicy in full", "PodMonitor", "PrometheusRule", "ServiceMonitor",
}

// The API server knows each field, and finds each value valid. ServiceMonitors, PodMonitors and PrometheusRules are
// checked by CRDs in testdata, with the fields of the Prometheus Operator that the chart can set. The operator accepts
// the arguments: it parses all of them before it prints its version.
func TestTheChartRendersWhatIsAccepted(t *testing.T) {
	t.Parallel()
	path := operatorPath(t)
	for name, values := range render.Sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(representative, name) {
				skip.UnderShort(t, "other sets of values have these fields")
			}
			g := NewWithT(t)
			manifest := must.Get(release(values).Manifest(t.Context()))(g)
			g.Expect(dryRun(t, manifest)).To(Succeed())
			objects := must.Get(manifests.Parse(manifest))(g)
			args := append(must.Get(render.Arguments(objects))(g), "--version")
			output, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), string(output))
		})
	}
}

func TestTheAPIServerRefusesFieldsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	manifest := must.Get(release(render.Sets["ServiceMonitor"]).Manifest(t.Context()))(g)
	for _, field := range []string{"serviceAccountName", "honorLabels", "unhealthyPodEvictionPolicy"} {
		g.Expect(manifest).To(ContainSubstring(field))
		err := dryRun(t, strings.ReplaceAll(manifest, field, "x"+field))
		g.Expect(err).To(MatchError(ContainSubstring("x"+field)), "the control of the test above")
	}
}

func TestTheAPIServerAcceptsTheKustomizations(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, name := range []string{"crd", "default", "grafana", "prometheus"} {
		manifest := must.Get(render.Manifest(t.Context(), name))(g)
		// The Namespace does not exist in a dry run.
		g.Expect(dryRun(t, strings.ReplaceAll(manifest, "scaledjob-operator-system", render.Namespace))).To(Succeed())
	}
}

// release is a release with these values.
func release(values string) render.Release {
	return render.Release{Name: "jobs", Namespace: render.Namespace, Values: values}
}

// dryRun has the API server check objects, with all fields, as it would before it stores them.
func dryRun(t *testing.T, manifest string) error {
	t.Helper()
	_, err := control.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server",
		"--validate=strict", "--filename="+write(t, manifest))
	return err
}

// write writes a file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

// Each flag is a value, and values.yaml names it. These are for processes outside of a cluster.
func TestEachFlagIsAValue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	chart := must.Get(render.Chart())(g)
	values := must.Get(os.ReadFile(filepath.Join(chart, "values.yaml")))(g)
	help := must.Get(exec.CommandContext(t.Context(), operatorPath(t), "--help").CombinedOutput())(g)
	flags := regexp.MustCompile(`(?m)^  -([\w-]+)`).FindAllStringSubmatch(string(help), -1)
	g.Expect(len(flags)).To(BeNumerically(">", 10))
	for _, flag := range flags {
		if flag[1] != "kubeconfig" && flag[1] != "version" {
			g.Expect(string(values)).To(MatchRegexp(`--%s\b`, flag[1]))
		}
	}
}

func operatorPath(t *testing.T) string {
	t.Helper()
	return must.Get(programs.Operator(t.Context(), nil))(NewWithT(t))
}
