// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestDockerfileGetsTheFilesOfTheImage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, tree(t), project)
	folder := filepath.Join(t.TempDir(), "rootfs")
	g.Expect(r.writeRootFS(t.Context(), folder)).To(Succeed())
	image := must.Get(r.describe(r.platform, filepath.Join(folder, "manager")).Build())(g)
	g.Expect(filesBelow(g, folder)).To(Equal(filesIn(g, mutate.Extract(image))))
	g.Expect(r.writeRootFS(t.Context(), folder)).To(MatchError(folder + " is not empty"))
}

// filesBelow lists the files of a folder with their permissions and sizes.
func filesBelow(g *WithT, folder string) (lines []string) {
	g.Expect(filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == folder {
			return err
		}
		size := info.Size()
		if info.IsDir() {
			size = 0
		}
		lines = append(lines, fmt.Sprintf("%s %v %d", strings.TrimPrefix(path, folder+"/"), info.Mode(), size))
		return nil
	})).To(Succeed())
	return lines
}

// filesIn lists the files of an image in the same way.
func filesIn(g *WithT, image io.Reader) (lines []string) {
	eachFile(g, image, func(header *tar.Header, _ string) {
		lines = append(lines, fmt.Sprintf("%s %v %d", header.Name, header.FileInfo().Mode(), header.Size))
	})
	slices.Sort(lines)
	return lines
}

func TestCertificatesAreThoseWithoutConstraints(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(certificates())).To(BeTrue())
	g.Expect(len(pool.Subjects())).To(BeNumerically(">", 100)) //nolint:staticcheck // The pool is not that of the system.
}

// The Dockerfile says again what the configuration of the image says.
func TestDockerfileRunsTheSame(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(filepath.Join(sources, "Dockerfile")))(g)
	config := prepared(t, "", project).describe(prepared(t, "", project).platform, "").Config
	_, stage, found := strings.Cut(string(content), "\nFROM scratch\n")
	g.Expect(found).To(BeTrue())
	g.Expect(stage).To(Equal("COPY --from=build /rootfs /\nUSER " + config.User + "\nENTRYPOINT [\"" + config.Entrypoint[0] + "\"]\n"))
}

func TestDockerGetsVersionAndLabels(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := prepared(t, "", "registry.example/operator")
	arguments := r.dockerArguments()
	g.Expect(arguments[:3]).To(Equal([]string{"build", "--build-arg=VERSION=v1.2.3", "--tag=registry.example/operator:v1.2.3"}))
	g.Expect(arguments).To(ContainElement("--label=org.opencontainers.image.licenses=Apache-2.0"))
	g.Expect(arguments).To(HaveLen(3 + len(r.labels()) + 1))
}
