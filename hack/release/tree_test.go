// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// project's root, as seen from this package.
const sources = "../.."

// copied are the parts of the project that a test uses as they are.
var copied = []string{"go.mod", "LICENSE", "hack/tools/go.mod", "hack/tools/go.sum", "config"}

// tree is a copy of the project with a small chart, and with an operator that compiles at once.
func tree(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	root := t.TempDir()
	for _, part := range copied {
		from, to := filepath.Join(sources, part), filepath.Join(root, part)
		g.Expect(os.MkdirAll(filepath.Dir(to), 0o755)).To(Succeed())
		if info, err := os.Stat(from); err == nil && info.IsDir() {
			g.Expect(os.CopyFS(to, os.DirFS(from))).To(Succeed())
			continue
		}
		content := must.Get(os.ReadFile(from))(g)
		write(t, root, part, string(content))
	}
	write(t, root, "cmd/main.go", "package main\n\nvar version string\n\nfunc main() { print(version) }\n")
	write(t, root, "charts/scaledjob-operator/Chart.yaml", `name: scaledjob-operator
version: 0.0.0
appVersion: "0.0.0"
annotations:
  artifacthub.io/images: |
    - name: scaledjob-operator
      image: scaledjob-operator:0.0.0
`)
	write(t, root, "charts/scaledjob-operator/values.yaml", `image:
  repository: scaledjob-operator
  tag: ""
  digest: ""
`)
	write(t, root, "charts/scaledjob-operator/.helmignore", "# of editors\n.idea/\n*~\n")
	write(t, root, "charts/scaledjob-operator/templates/deployment.yaml", "kind: Deployment\n")
	return root
}

// prepared is a release of v1.2.3 from a tree. It compiles nothing: its operator is a text.
func prepared(t *testing.T, root, image string) *release {
	t.Helper()
	return &release{
		root: root, dist: filepath.Join(t.TempDir(), "dist"), version: "1.2.3", image: image,
		revision: "0123456789", created: time.Unix(1700000000, 0).UTC(), out: t.Output(),
		platform:  v1.Platform{OS: "linux", Architecture: "arm64"},
		downloads: "https://downloads.example",
		compile: func(_ context.Context, platform v1.Platform, program, file string) error {
			write(t, filepath.Dir(file), filepath.Base(file), titles[program]+" for "+platform.String())
			return nil
		},
		listModules: func(context.Context, string) ([]byte, error) {
			return []byte(`{"bomFormat": "CycloneDX", "metadata": {"tools": [{"name": "tool", "hashes": ["of this machine"]}]}}`), nil
		},
	}
}

// operator is a file that stands for the operator.
func operator(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "manager", "the operator")
	return filepath.Join(folder, "manager")
}

// read reads a file of dist.
func (r *release) read(t *testing.T, file string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(r.dist, file)))(NewWithT(t))
	return string(content)
}

// filesOf returns the files of a tar.gz.
func filesOf(g *WithT, archive string) map[string]string {
	packed := must.Get(os.Open(archive))(g)
	defer packed.Close()
	files := map[string]string{}
	eachFile(g, must.Get(gzip.NewReader(packed))(g), func(header *tar.Header, content string) {
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = content
		}
	})
	return files
}

// eachFile calls do for each file of a tar, with its content.
func eachFile(g *WithT, archive io.Reader, do func(*tar.Header, string)) {
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		do(header, string(must.Get(io.ReadAll(reader))(g)))
	}
}
