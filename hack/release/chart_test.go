// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// chartOf reads the files of the chart in dist.
func chartOf(g *WithT, r *release) map[string]string {
	file, err := os.Open(filepath.Join(r.dist, "scaledjob-operator-1.2.3.tgz"))
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	g.Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for reader := tar.NewReader(unpacked); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		g.Expect(err).NotTo(HaveOccurred())
		if header.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(reader)
			g.Expect(err).NotTo(HaveOccurred())
			files[header.Name] = string(content)
		}
	}
}

func TestChartHasVersionAndImage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), "registry.example/operator")
	for _, stray := range []string{"values.yaml~", ".values.yaml.swp", "templates/old.yaml.orig", "tests/deployment_test.yaml", ".DS_Store", ".idea/settings"} {
		write(t, filepath.Join(r.root, chartFolder), stray, "")
	}
	write(t, filepath.Join(r.root, chartFolder), ".helmignore", "*~\n")
	g.Expect(os.MkdirAll(r.dist, 0o755)).To(Succeed())
	g.Expect(r.writeChart(digest)).To(Succeed())
	g.Expect(chartOf(g, r)).To(Equal(map[string]string{
		"scaledjob-operator/.helmignore": "*~\n",
		"scaledjob-operator/Chart.yaml": `name: scaledjob-operator
version: "1.2.3" # replaced
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

func TestChartsThatCannotBePacked(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(folder string) error{
		"charts/scaledjob-operator/values.yaml: it has no image.repository": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "values.yaml"), []byte("replicas: 2\n"), 0o600)
		},
		"charts/scaledjob-operator/Chart.yaml: it has no appVersion": func(folder string) error {
			return os.Remove(filepath.Join(folder, "Chart.yaml"))
		},
		"link is a symbolic link, which a chart can't hold": func(folder string) error {
			return os.Symlink("/etc/passwd", filepath.Join(folder, "link"))
		},
	} {
		g := NewWithT(t)
		r := prepared(t, tree(t), project)
		g.Expect(spoil(filepath.Join(r.root, chartFolder))).To(Succeed())
		g.Expect(r.writeChart("")).To(MatchError(ContainSubstring(want)))
	}
}
