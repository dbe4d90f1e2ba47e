// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// chartOf reads the files of the chart in dist.
func chartOf(g *WithT, r *release) map[string]string {
	return filesOf(g, filepath.Join(r.dist, "scaledjob-operator-1.2.3.tgz"))
}

func TestChartHasVersionAndImage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), "registry.example/operator")
	for _, ignored := range []string{"values.yaml~", "templates/old.yaml~", ".idea/settings"} {
		write(t, filepath.Join(r.root, chartFolder), ignored, "")
	}
	g.Expect(os.MkdirAll(r.dist, 0o755)).To(Succeed())
	g.Expect(r.writeChart(digest)).To(Succeed())
	g.Expect(chartOf(g, r)).To(Equal(map[string]string{
		"scaledjob-operator/.helmignore": "# of editors\n.idea/\n*~\n",
		"scaledjob-operator/Chart.yaml": `name: scaledjob-operator
version: "1.2.3"
appVersion: "v1.2.3"
annotations:
  artifacthub.io/images: |
    - name: scaledjob-operator
      image: registry.example/operator:v1.2.3@` + digest + `
`,
		"scaledjob-operator/values.yaml": `image:
  repository: "registry.example/operator"
  tag: ""
  digest: "` + digest + `"
`,
		"scaledjob-operator/templates/deployment.yaml": "kind: Deployment\n",
	}))
}

func TestTheChartOfTheSourceGetsVersionAndImage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := must.Get(chartFiles(filepath.Join(sources, chartFolder)))(g)
	g.Expect(files).To(And(HaveKey("templates/deployment.yaml"), HaveKey("files/crd.yaml")))
	g.Expect(prepared(t, "", "registry.example/operator").stamp(files, digest)).To(Succeed())
	var chart struct{ Version, AppVersion string }
	g.Expect(yaml.Unmarshal(files["Chart.yaml"], &chart)).To(Succeed())
	g.Expect(chart.Version + " " + chart.AppVersion).To(Equal("1.2.3 v1.2.3"))
	var values struct {
		Image struct{ Repository, Tag, Digest string }
	}
	g.Expect(yaml.Unmarshal(files["values.yaml"], &values)).To(Succeed())
	g.Expect(values.Image.Repository + "@" + values.Image.Digest).To(Equal("registry.example/operator@" + digest))
	g.Expect(values.Image.Tag).To(BeEmpty())
}

func TestChartsThatCannotBePacked(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(folder string) error{
		`charts/scaledjob-operator/values.yaml: it needs the line "  repository: scaledjob-operator", once`: func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "values.yaml"), []byte("replicas: 2\n"), 0o600)
		},
		`charts/scaledjob-operator/Chart.yaml: it needs the line "version: 0.0.0", once`: func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("version: 0.0.0\nversion: 0.0.0\n"), 0o600)
		},
		"link is neither a file nor a folder": func(folder string) error {
			return os.Symlink("/etc/passwd", filepath.Join(folder, "link"))
		},
		".helmignore: no such file": func(folder string) error {
			return os.Remove(filepath.Join(folder, ".helmignore"))
		},
	} {
		g := NewWithT(t)
		r := prepared(t, tree(t), project)
		g.Expect(spoil(filepath.Join(r.root, chartFolder))).To(Succeed())
		g.Expect(r.writeChart("")).To(MatchError(ContainSubstring(want)))
	}
}
