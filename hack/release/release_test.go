// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestReleaseIsCompleteAndReproducible(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var said bytes.Buffer
	one, two := prepared(t, tree(t), project), prepared(t, tree(t), project)
	one.out = &said
	g.Expect(one.make(t.Context())).To(Succeed())
	write(t, two.dist, "scaledjob-operator-v1.2.2-linux-amd64.tar", "an older release")
	g.Expect(two.make(t.Context())).To(Succeed())

	entries := must.Get(os.ReadDir(one.dist))(g)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	g.Expect(names).To(Equal([]string{
		"SHA256SUMS",
		"crds.yaml",
		"install.yaml",
		"krew.yaml",
		"kubectl-scaledjob-v1.2.3-darwin-amd64.tar.gz",
		"kubectl-scaledjob-v1.2.3-darwin-arm64.tar.gz",
		"kubectl-scaledjob-v1.2.3-linux-amd64.tar.gz",
		"kubectl-scaledjob-v1.2.3-linux-arm64.tar.gz",
		"kubectl-scaledjob-v1.2.3-windows-amd64.zip",
		"kubectl-scaledjob-v1.2.3-windows-arm64.zip",
		"scaledjob-operator-1.2.3.tgz",
		"scaledjob-operator-v1.2.3-linux-amd64.cdx.json",
		"scaledjob-operator-v1.2.3-linux-amd64.tar",
		"scaledjob-operator-v1.2.3-linux-arm64.cdx.json",
		"scaledjob-operator-v1.2.3-linux-arm64.tar",
	}))
	g.Expect(one.read(t, checksums)).To(Equal(two.read(t, checksums)))
	_, err := command(t.Context(), one.dist, nil, "sha256sum", "--check", "--strict", checksums)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.read(t, "scaledjob-operator-v1.2.3-linux-amd64.cdx.json")).NotTo(ContainSubstring("hashes"))

	for _, name := range names {
		g.Expect(said.String()).To(ContainSubstring("\n"+name), "the table")
	}
	for _, architecture := range architectures {
		g.Expect(said.String()).To(ContainSubstring(digestOf(g, one, architecture)))
	}
	g.Expect(said.String()).To(ContainSubstring("make push VERSION=v1.2.3 IMAGE=registry.example/scaledjob-operator"))
}

// digestOf returns the digest of the image in an archive, as its index.json says.
func digestOf(g *WithT, r *release, architecture string) string {
	file := r.perPlatform(architecture, ".tar")
	image := must.Get(tarball.ImageFromPath(file, nil))(g)
	config := must.Get(image.ConfigFile())(g)
	g.Expect(config.Architecture).To(Equal(architecture))
	index := must.Get(command(context.Background(), "", nil, "tar", "-xOf", file, "index.json"))(g)
	manifest := must.Get(v1.ParseIndexManifest(bytes.NewReader(index)))(g)
	return manifest.Manifests[0].Digest.String()
}

func TestImageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	image := must.Get(r.describe(r.platform, operator(t)).Build())(g)
	config := must.Get(image.ConfigFile())(g)
	g.Expect(config.Config.User).To(Equal("65532:65532"))
	g.Expect(config.Config.Entrypoint).To(Equal([]string{"/manager"}))
	g.Expect(config.Config.Labels).To(Equal(map[string]string{
		"org.opencontainers.image.title":       "scaledjob-operator",
		"org.opencontainers.image.description": "Creates Kubernetes Jobs for messages in Redis",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.revision":    "0123456789",
		"org.opencontainers.image.source":      "https://miracle.dev/scaledjob-operator",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     "2023-11-14T22:13:20Z",
	}))
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"charts/scaledjob-operator", "config/default", "config/crd"} {
		g := NewWithT(t)
		r := prepared(t, tree(t), project)
		g.Expect(os.RemoveAll(filepath.Join(r.root, part))).To(Succeed())
		g.Expect(r.make(t.Context())).To(MatchError("the folder " + part + " is missing, and a release needs it"))
		g.Expect(r.dist).NotTo(BeADirectory())
	}
}

func TestWhatFailsIsNamed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	r.compile = func(context.Context, v1.Platform, string, string) error { return errors.New("syntax error") }
	g.Expect(r.make(t.Context())).To(MatchError("compiling the operator for linux/amd64: syntax error"))
}

func TestAReleaseNeedsAVersion(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, o := tree(t), options{image: project, platform: "linux/amd64"}
	_, err := newRelease(t.Context(), root, o, t.Output())
	g.Expect(err).To(MatchError(HavePrefix("set VERSION, as in VERSION=v1.2.3: git can't tell the version of this folder (git ")))
	o.version = "v1.2"
	_, err = newRelease(t.Context(), root, o, t.Output())
	g.Expect(err).To(MatchError(HavePrefix("VERSION=v1.2 is not a version")))
	o.version = "2.0.0"
	r := must.Get(newRelease(t.Context(), root, o, t.Output()))(g)
	g.Expect(r.reference("sha256:0")).To(Equal("scaledjob-operator:v2.0.0@sha256:0"))
	g.Expect(r.labels()).NotTo(HaveKey("org.opencontainers.image.revision"))
	_, err = newRelease(t.Context(), t.TempDir(), o, t.Output())
	g.Expect(err).To(MatchError(HavePrefix("run this in the folder of the project")))
}

// The operator here is a small program: what matters is that no path of the machine gets into the binary.
func TestCompiledFilesDoNotDependOnTheFolder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var compiled [][]byte
	for range 2 {
		r := prepared(t, tree(t), project)
		file := filepath.Join(t.TempDir(), "manager")
		g.Expect(r.goBuild(t.Context(), v1.Platform{OS: "linux", Architecture: "amd64"}, operatorPackage, file)).To(Succeed())
		content := must.Get(os.ReadFile(file))(g)
		g.Expect(bytes.Contains(content, []byte("v1.2.3"))).To(BeTrue(), "the version")
		g.Expect(bytes.Contains(content, []byte(r.root))).To(BeFalse(), "the folder")
		compiled = append(compiled, content)
	}
	g.Expect(bytes.Equal(compiled[0], compiled[1])).To(BeTrue())
}

func TestSettingsForOtherBuildsDoNotCount(t *testing.T) {
	settings := t.TempDir()
	write(t, settings, "env", "GOEXPERIMENT=arenas\nGOPROXY=https://registry.example\n")
	t.Setenv("GOENV", filepath.Join(settings, "env"))
	t.Setenv("GOFIPS140", "latest")
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	file := filepath.Join(t.TempDir(), "manager")
	g.Expect(r.goBuild(t.Context(), v1.Platform{OS: "linux", Architecture: "amd64"}, operatorPackage, file)).To(Succeed())
	built := must.Get(buildinfo.ReadFile(file))(g)
	g.Expect(built.GoVersion).To(Equal(runtime.Version()))
	g.Expect(built.String()).NotTo(Or(ContainSubstring("GOEXPERIMENT"), ContainSubstring("fips140")))
	g.Expect(r.goSettings(t.Context())).To(ContainElement("GOPROXY=https://registry.example"), "it does not change what is built")
}
