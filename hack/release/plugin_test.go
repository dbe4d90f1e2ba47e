// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// manifestOfKrew reads the manifest of a release.
func manifestOfKrew(t *testing.T, r *release) krewPlugin {
	t.Helper()
	var manifest krewPlugin
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(r.read(t, krewManifest)), &manifest)).To(Succeed())
	return manifest
}

func TestKrewGetsTheArchiveOfEachPlatform(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	g.Expect(os.Mkdir(r.dist, 0o755)).To(Succeed())
	g.Expect(r.makePlugins(t.Context(), pluginPlatforms())).To(Succeed())
	manifest := manifestOfKrew(t, r)
	g.Expect(manifest.APIVersion + " " + manifest.Kind + " " + manifest.Metadata.Name).To(HaveSuffix("/v1alpha2 Plugin scaledjob"))
	g.Expect(manifest.Spec.Version).To(Equal("v1.2.3"))
	g.Expect(manifest.Spec.ShortDescription).NotTo(ContainSubstring("\n"))
	g.Expect(manifest.Spec.Platforms).To(HaveLen(6))
	for _, offer := range manifest.Spec.Platforms {
		platform := v1.Platform{OS: offer.Selector.MatchLabels["os"], Architecture: offer.Selector.MatchLabels["arch"]}
		folder, file := filepath.Split(offer.URI)
		g.Expect(folder).To(Equal("https://downloads.example/v1.2.3/"))
		g.Expect(file).To(HavePrefix("kubectl-scaledjob-v1.2.3-" + platform.OS + "-" + platform.Architecture + "."))
		g.Expect(fmt.Sprintf("%x", sha256.Sum256([]byte(r.read(t, file))))).To(Equal(offer.Sha256))
		files := unpacked(g, filepath.Join(r.dist, file))
		g.Expect(files).To(HaveKeyWithValue(offer.Bin, "kubectl-scaledjob for "+platform.String()))
		g.Expect(files).To(HaveKeyWithValue("LICENSE", ContainSubstring("Apache License")))
	}
}

// unpacked returns the files of an archive.
func unpacked(g *WithT, archive string) map[string]string {
	if strings.HasSuffix(archive, ".tar.gz") {
		return filesOf(g, archive)
	}
	content := must.Get(zip.OpenReader(archive))(g)
	defer content.Close()
	files := map[string]string{}
	for _, file := range content.File {
		files[file.Name] = string(must.Get(io.ReadAll(must.Get(file.Open())(g)))(g))
	}
	return files
}

// The time of sources without git is before the first one of the format.
func TestAZipFromBeforeTheFormat(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	r.created = time.Unix(0, 0).UTC()
	g.Expect(os.Mkdir(r.dist, 0o755)).To(Succeed())
	g.Expect(r.makePlugins(t.Context(), []v1.Platform{{OS: windows, Architecture: "arm64"}})).To(Succeed())
	archive := must.Get(zip.OpenReader(filepath.Join(r.dist, "kubectl-scaledjob-v1.2.3-windows-arm64.zip")))(g)
	defer archive.Close()
	g.Expect(archive.File[0].Name).To(Equal("kubectl-scaledjob.exe"))
	g.Expect(archive.File[0].Modified.Year()).To(Equal(1980))
}

func TestAPluginThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	r.compile = func(context.Context, v1.Platform, string, string) error { return errors.New("syntax error") }
	g.Expect(r.makePlugins(t.Context(), pluginPlatforms())).To(MatchError("compiling kubectl-scaledjob for linux/amd64: syntax error"))
}

// Krew installs the real plugin from its archive, and refuses an archive that is not the one of the release.
func TestKrewInstallsThePlugin(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "it compiles krew and the plugin, and the manifest is compared with the archives")
	g := NewWithT(t)
	krew := must.Get(programs.Path(t.Context(), t.Output(), "krew"))(g)
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	env := []string{"KREW_ROOT=" + root, "KREW_NO_UPGRADE_CHECK=1", "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")}

	r := prepared(t, sources, project)
	r.compile = r.goBuild
	g.Expect(os.Mkdir(r.dist, 0o755)).To(Succeed())
	g.Expect(r.makePlugins(t.Context(), []v1.Platform{{OS: runtime.GOOS, Architecture: runtime.GOARCH}})).To(Succeed())
	offer := manifestOfKrew(t, r).Spec.Platforms[0]
	archive, manifest := filepath.Join(r.dist, filepath.Base(offer.URI)), filepath.Join(r.dist, krewManifest)

	other := filepath.Join(t.TempDir(), filepath.Base(archive))
	write(t, filepath.Dir(other), filepath.Base(other), "another archive")
	_, err := command(t.Context(), "", env, krew, "install", "--manifest="+manifest, "--archive="+other)
	g.Expect(err).To(MatchError(ContainSubstring("checksum does not match")))
	_, err = command(t.Context(), "", env, krew, "install", "--manifest="+manifest, "--archive="+archive)
	g.Expect(err).NotTo(HaveOccurred())
	version := must.Get(command(t.Context(), "", env, filepath.Join(bin, plugin), "version"))(g)
	g.Expect(string(version)).To(Equal("v1.2.3\n"))

	// kubectl runs a program of this name to complete the arguments of the plugin.
	programs.Write(t, bin, "kubectl", "#!/bin/sh\nplugin=$1\nshift\nexec \"kubectl-$plugin\" \"$@\"\n")
	completed, err := command(t.Context(), "", env, filepath.Join(root, "store", "scaledjob", "v1.2.3", completer), "stat")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(completed)).To(HavePrefix("status\t"))
}
