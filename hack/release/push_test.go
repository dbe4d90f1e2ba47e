// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// serve starts a server that ends with the test, and returns the name of an image on it.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/team/operator"
}

func TestPushedImagesAreNamedByDigest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	image := serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	r := prepared(t, tree(t), image)
	var said bytes.Buffer
	r.out = &said
	g.Expect(r.makeAndPush(t.Context())).To(Succeed())

	tag := must.Get(name.ParseReference(image + ":v1.2.3"))(g)
	index := must.Get(remote.Index(tag))(g)
	g.Expect(validate.Index(index)).To(Succeed())
	manifest := must.Get(index.IndexManifest())(g)
	var platforms, digests []string
	for _, each := range manifest.Manifests {
		platforms, digests = append(platforms, each.Platform.String()), append(digests, each.Digest.String())
	}
	g.Expect(platforms).To(Equal([]string{"linux/amd64", "linux/arm64"}))
	g.Expect(digests).To(Equal([]string{digestOf(g, r, "amd64"), digestOf(g, r, "arm64")}))

	pushed := must.Get(index.Digest())(g)
	g.Expect(r.read(t, "install.yaml")).To(ContainSubstring("image: " + image + ":v1.2.3@" + pushed.String() + "\n"))
	values := chartOf(g, r)["scaledjob-operator/values.yaml"]
	g.Expect(values).To(And(ContainSubstring(image), ContainSubstring(`digest: "`+pushed.String()+`"`)))
	g.Expect(said.String()).To(MatchRegexp(`Pushing ` + regexp.QuoteMeta(image) + `:v1\.2\.3, \d+\.\d KiB in all\.`))
	g.Expect(said.String()).To(ContainSubstring("Pushed:           " + image + ":v1.2.3@" + pushed.String()))
	_, err := command(t.Context(), r.dist, nil, "sha256sum", "--check", "--strict", checksums)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestARegistryThatRefusesLeavesFilesWithoutADigest(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	answer := func(code int) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	}
	for want, image := range map[string]string{
		"the registry refuses these credentials; sign in with docker login 127.0.0.1": answer(http.StatusUnauthorized),
		"500 Internal Server Error": answer(http.StatusInternalServerError),
		"connection refused":        strings.TrimPrefix(closed.URL, "http://") + "/team/operator",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := prepared(t, tree(t), image)
			err := r.makeAndPush(t.Context())
			g.Expect(err).To(MatchError(And(HavePrefix("pushing "+image+":v1.2.3: "), ContainSubstring(want),
				HaveSuffix("; "+r.dist+" is complete and names the image by its tag, but the image was not pushed"))))
			g.Expect(err.Error()).NotTo(ContainSubstring("\n"))
			g.Expect(r.read(t, "install.yaml")).To(And(ContainSubstring("image: "+image+":v1.2.3\n"), Not(ContainSubstring("sha256:"))))
			g.Expect(chartOf(g, r)["scaledjob-operator/values.yaml"]).To(ContainSubstring(`digest: ""`))
			_, err = command(t.Context(), r.dist, nil, "sha256sum", "--check", "--strict", checksums)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}
