// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// server is an image with two layers. In the upper one is everything that a file can be.
func server() Image {
	return Image{
		Platform: v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"},
		Created:  time.Unix(1700000000, 0),
		Config: v1.Config{
			Entrypoint: []string{"/server"}, Cmd: []string{"--port", "1"}, User: "65532:65532",
			Env: []string{"PATH=/bin"}, Labels: map[string]string{"title": "server"},
			WorkingDir: "/data", ExposedPorts: map[string]struct{}{"1/tcp": {}},
		},
		Layers: []Layer{
			{Comment: "users", Files: []File{{Path: "/etc/passwd", Mode: 0o644, Content: []byte("root")}}},
			{Comment: "server", Files: []File{
				{Path: "server", Mode: 0o755, Content: []byte("binary")},
				{Path: "/data", Mode: fs.ModeDir | 0o777},
				{Path: "/usr/lib/libc.so", Mode: 0o600, Content: []byte{}},
				{Path: "/lib", Link: "usr/lib"},
			}},
		},
	}
}

// build builds an image that has no fault.
func build(g *WithT, image Image) v1.Image {
	return must.Get(image.Build())(g)
}

// digest returns the digest of an image.
func digest(g *WithT, image v1.Image) string {
	hash := must.Get(image.Digest())(g)
	return hash.String()
}

func TestArchiveIsReadBackBothWays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	built := build(g, server())
	archive := filepath.Join(t.TempDir(), "server.tar")
	g.Expect(WriteArchive(archive, "registry.example:5000/team/server:v1", built)).To(Succeed())

	folder := unpack(t, archive)
	index := must.Get(layout.ImageIndexFromPath(folder))(g)
	g.Expect(validate.Index(index)).To(Succeed())
	manifest := must.Get(index.IndexManifest())(g)
	g.Expect(manifest.Manifests).To(HaveLen(1))
	entry := manifest.Manifests[0]
	g.Expect(entry.Digest.String()).To(Equal(digest(g, built)))
	g.Expect(entry.MediaType).To(Equal(types.OCIManifestSchema1))
	g.Expect(entry.Platform).To(Equal(&v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}))
	g.Expect(entry.Annotations).To(Equal(map[string]string{
		"org.opencontainers.image.ref.name": "v1",
		"io.containerd.image.name":          "registry.example:5000/team/server:v1",
	}))
	fromLayout := must.Get(index.Image(entry.Digest))(g)

	fromDocker := must.Get(tarball.ImageFromPath(archive, nil))(g)
	g.Expect(validate.Image(fromDocker)).To(Succeed())
	for _, read := range []v1.Image{fromLayout, fromDocker} {
		g.Expect(contents(g, read)).To(Equal(contents(g, built)))
		g.Expect(read.RawConfigFile()).To(Equal(must.Get(built.RawConfigFile())(g)))
	}
	g.Expect(layers(g, fromDocker)).To(Equal(layers(g, built)), "the compressed layers")
}

func TestShortNamesAreCompletedForContainerdOnly(t *testing.T) {
	t.Parallel()
	for short, full := range map[string]string{
		"redis:7":               "docker.io/library/redis:7",
		"team/server:v1":        "docker.io/team/server:v1",
		"registry.example/s:v1": "registry.example/s:v1",
	} {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			archive := filepath.Join(t.TempDir(), "image.tar")
			g.Expect(WriteArchive(archive, short, build(g, server()))).To(Succeed())
			manifest := must.Get(tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) }))(g)
			g.Expect(manifest).To(HaveLen(1))
			g.Expect(manifest[0].RepoTags).To(Equal([]string{short}))
			index := must.Get(layout.ImageIndexFromPath(unpack(t, archive)))(g)
			g.Expect(must.Get(index.IndexManifest())(g).Manifests[0].Annotations).To(HaveKeyWithValue(containerdName, full))
		})
	}
}

func TestEverythingArrivesInTheLayer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(contents(g, build(g, server()))).To(Equal([]string{
		"data/ 777 0:0 ",
		"etc/ 755 0:0 ",
		"etc/passwd 644 0:0 root",
		"lib 777 0:0 -> usr/lib",
		"server 755 0:0 binary",
		"usr/ 755 0:0 ",
		"usr/lib/ 755 0:0 ",
		"usr/lib/libc.so 600 0:0 ",
	}))
	config := must.Get(build(g, server()).ConfigFile())(g)
	g.Expect(config.Config).To(Equal(server().Config))
	g.Expect(config.Created.Unix()).To(Equal(int64(1700000000)))
	g.Expect(config.History).To(HaveLen(2))
	g.Expect(config.History[1].Comment).To(Equal("server"))
}

func TestTheSameFilesGiveTheSameDigest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var written [][]byte
	for n := range 2 {
		image := server()
		image.Created = image.Created.In(time.FixedZone("elsewhere", 3600*n))
		files := image.Layers[1].Files
		files[0], files[3-n] = files[3-n], files[0]
		archive := filepath.Join(t.TempDir(), fmt.Sprint(n))
		g.Expect(WriteArchive(archive, "server:v1", build(g, image))).To(Succeed())
		written = append(written, must.Get(os.ReadFile(archive))(g))
	}
	g.Expect(written[0]).To(Equal(written[1]))

	later := server()
	later.Created = later.Created.Add(time.Second)
	g.Expect(digest(g, build(g, later))).NotTo(Equal(digest(g, build(g, server()))))
	g.Expect(layers(g, build(g, later))).To(Equal(layers(g, build(g, server()))), "a layer does not know its time")
}

func TestTreeHasFilesAndFolders(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(os.MkdirAll(filepath.Join(folder, "usr/bin"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "usr/bin/redis"), []byte("binary"), 0o600)).To(Succeed())
	g.Expect(Tree(folder)).To(Equal([]File{
		{Path: "usr", Mode: fs.ModeDir | 0o755},
		{Path: "usr/bin", Mode: fs.ModeDir | 0o755},
		{Path: "usr/bin/redis", Mode: 0o644, Source: filepath.Join(folder, "usr/bin/redis")},
	}))

	g.Expect(os.Symlink("usr/bin", filepath.Join(folder, "bin"))).To(Succeed())
	g.Expect(Tree(folder)).Error().To(MatchError(HaveSuffix("bin is neither a file nor a folder")))
	g.Expect(Tree(folder + "s")).Error().To(MatchError(fs.ErrNotExist))
}

func TestBadNamesAndFoldersLeaveNoFile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := t.TempDir()
	built := build(g, server())
	for reference, want := range map[string]string{
		"server":                     `"server" needs a tag, as in server:v1`,
		"registry.example:5000/name": "needs a tag",
		"my server:v1":               "is not the name of an image",
	} {
		g.Expect(WriteArchive(filepath.Join(folder, "x.tar"), reference, built)).To(MatchError(ContainSubstring(want)), reference)
	}
	g.Expect(WriteArchive(filepath.Join(folder, "missing", "x.tar"), "server:v1", built)).To(MatchError(fs.ErrNotExist))
	g.Expect(os.ReadDir(folder)).To(BeEmpty())
}

// contents lists what is in an image.
func contents(g *WithT, image v1.Image) []string {
	reader := mutate.Extract(image)
	defer func() { g.Expect(reader.Close()).To(Succeed()) }()
	var lines []string
	eachFile(g, reader, func(header *tar.Header, content []byte) {
		g.Expect(header.ModTime.Unix()).To(BeZero(), header.Name)
		what, mark := string(content), ""
		if header.Typeflag == tar.TypeSymlink {
			what = "-> " + header.Linkname
		}
		if header.Typeflag == tar.TypeDir {
			mark = "/"
		}
		lines = append(lines, fmt.Sprintf("%s%s %o %d:%d %s", header.Name, mark, header.Mode, header.Uid, header.Gid, what))
	})
	slices.Sort(lines)
	return lines
}

// layers returns the digests of the compressed layers.
func layers(g *WithT, image v1.Image) (digests []string) {
	all := must.Get(image.Layers())(g)
	for _, layer := range all {
		digests = append(digests, must.Get(layer.Digest())(g).String())
	}
	return digests
}

// unpack extracts an archive.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	reader := must.Get(os.Open(archive))(g)
	defer reader.Close()
	eachFile(g, reader, func(header *tar.Header, content []byte) {
		file := filepath.Join(folder, header.Name)
		if header.Typeflag == tar.TypeDir {
			g.Expect(header.Mode).To(Equal(int64(0o755)))
			g.Expect(os.MkdirAll(file, 0o755)).To(Succeed())
			return
		}
		g.Expect(header.Mode).To(Equal(int64(0o644)))
		g.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	})
	return folder
}

func eachFile(g *WithT, reader io.Reader, do func(*tar.Header, []byte)) {
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		do(header, must.Get(io.ReadAll(archive))(g))
	}
}
