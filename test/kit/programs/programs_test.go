// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

const (
	published = "#!/bin/sh\necho published\n"
	overHTTP  = "the same over HTTP"
	file      = "dl.k8s.io/v1.37.2/bin/linux/amd64/kubectl"
	goMod     = "module x\n\nrequire (\n\tk8s.io/kubernetes-other v1.0.0\n\tk8s.io/kubernetes v1.37.2\n)\n"
	// compiler stands in for the go command: what it compiles prints "compiled".
	compiler = `#!/bin/sh
case "$1 $2" in
"env GOOS") echo linux ;;
"env GOARCH") echo amd64 ;;
"-C "*) echo go1.26.0 ;;
"build "*) printf '#!/bin/sh\necho compiled\n' > "$4"; chmod +x "$4"; echo "$@" >> "$COMPILED" ;;
esac
`
)

// mirror is a copy of the script with an empty cache and a compiler that stands in, and a server from which it
// downloads.
type mirror struct {
	dir      string
	env      []string
	requests atomic.Int64
	// answers are those of the server, by path. It redirects to HTTP what is overHTTP.
	answers map[string]string
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	g := NewWithT(t)
	m := &mirror{dir: t.TempDir(), answers: map[string]string{file: published, file + ".sha256": digest(published)}}
	insecure := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, published) }))
	t.Cleanup(insecure.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests.Add(1)
		answer, found := m.answers[strings.TrimPrefix(r.URL.Path, "/")]
		switch {
		case !found:
			http.NotFound(w, r)
		case answer == overHTTP:
			http.Redirect(w, r, insecure.URL, http.StatusFound)
		default:
			_, _ = fmt.Fprint(w, answer)
		}
	}))
	t.Cleanup(server.Close)
	content := must.Get(os.ReadFile("../../../hack/programs.sh"))(g)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path, content := range map[string]string{
		"hack/programs.sh": string(content), "hack/digests.txt": "# none\n", "hack/tools/kubernetes/1.37/go.mod": goMod,
		"bin/go": compiler, "ca.pem": string(certificate),
	} {
		Write(t, m.dir, path, content)
	}
	m.env = []string{
		"PATH=" + m.path("bin") + ":" + os.Getenv("PATH"), "SCALEDJOB_CACHE=" + m.path("cache"), "CURL_CA_BUNDLE=" + m.path("ca.pem"),
		"PARTS_MIRROR=https://user:secret@" + server.Listener.Addr().String(), "COMPILED=" + m.path("compiled"), "HOME=" + m.dir,
	}
	return m
}

func (m *mirror) path(name string) string { return filepath.Join(m.dir, name) }

// run returns what the script prints on standard output and on standard error.
func (m *mirror) run(t *testing.T, env ...string) (out, said string, err error) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), m.path("hack/programs.sh"), "kubectl")
	cmd.Env, cmd.Stdout, cmd.Stderr = slices.Concat(m.env, env), &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// prints is what the program prints that the script finds.
func (m *mirror) prints(t *testing.T, env ...string) string {
	t.Helper()
	g := NewWithT(t)
	out, said, err := m.run(t, env...)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).NotTo(ContainSubstring("secret"))
	name, path, _ := strings.Cut(strings.TrimSpace(out), " ")
	g.Expect(name).To(Equal("kubectl"))
	output := must.Get(exec.CommandContext(t.Context(), path).Output())(g)
	return strings.TrimSpace(string(output))
}

func digest(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

func TestManyAtATimeDownloadOnce(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { NewWithT(t).Expect(m.prints(t)).To(Equal("published")) })
	}
	group.Wait()
	NewWithT(t).Expect(m.requests.Load()).To(BeEquivalentTo(2), "the checksum and the program")
}

func TestOnlyWhatWasPublishedIsUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers map[string]string // that differ
		digests string
		want    string
	}{
		"right":                           {nil, "", "published"},
		"a list of checksums":             {map[string]string{file + ".sha256": digest("x") + "  other\n" + digest(published) + "  kubectl\n"}, "", "published"},
		"changed":                         {map[string]string{file: published + "# changed"}, "", "compiled"},
		"a web page":                      {map[string]string{file: "<html>", file + ".sha256": "<html>"}, "", "compiled"},
		"no such file":                    {map[string]string{file: ""}, "", "compiled"},
		"no checksum":                     {map[string]string{file + ".sha256": ""}, "", "compiled"},
		"led away from HTTPS":             {map[string]string{file: overHTTP}, "", "compiled"},
		"another digest in the source":    {nil, digest("x") + "  " + file + "\n", "compiled"},
		"right, with a digest of its own": {map[string]string{file + ".sha256": ""}, digest(published) + "  " + file + "\n", "published"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMirror(t)
			for path, answer := range c.answers {
				if m.answers[path] = answer; answer == "" {
					delete(m.answers, path)
				}
			}
			Write(t, m.dir, "hack/digests.txt", c.digests)
			NewWithT(t).Expect(m.prints(t)).To(Equal(c.want))
		})
	}
}

func TestProgramsAreCompiledWithTheirVersion(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	m := newMirror(t)
	g.Expect(m.prints(t, "PARTS=compile")).To(Equal("compiled"))
	g.Expect(m.requests.Load()).To(BeZero())
	g.Expect(os.ReadFile(m.path("compiled"))).To(ContainSubstring("gitVersion=v1.37.2 -X k8s.io/component-base/version.gitMajor=1 " +
		"-X k8s.io/component-base/version.gitMinor=37"))
}

func TestCacheAndAssetsComeFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	m := newMirror(t)
	Write(t, m.dir, "assets/kubectl", "#!/bin/sh\necho assets\n")
	g.Expect(m.prints(t, "KUBEBUILDER_ASSETS="+m.path("assets"))).To(Equal("assets"))
	Write(t, m.dir, "cache/kubectl-v1.37.2-linux-amd64/kubectl", "#!/bin/sh\necho cache\n")
	g.Expect(m.prints(t)).To(Equal("cache"))
	g.Expect(m.requests.Load()).To(BeZero())
	Write(t, m.dir, "cache/kubectl-v1.37.2-linux-amd64/kubectl", "")
	g.Expect(m.prints(t)).To(Equal("published"), "what is empty is made again")
}

func TestWrongVariablesAreRefused(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	for variable, says := range map[string]string{
		"K8S=1.33": "K8S=1.33 is not a version to run; choose one of 1.37.", "K8S=..": "K8S=.. is not a version to run",
		"PARTS=none": "PARTS=none is unknown", "PARTS_MIRROR=http://example.com": "PARTS_MIRROR is not an address",
		"PARTS_MIRROR=https://example.com?x": "PARTS_MIRROR is not an address",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			_, said, err := m.run(t, variable)
			NewWithT(t).Expect(err).To(HaveOccurred())
			NewWithT(t).Expect(said).To(ContainSubstring(says))
		})
	}
}

// What the control plane and the product both import is compiled once only if it has the same version in both.
func TestControlPlaneAndProductShareVersions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	product := required(g, "../../../go.mod")
	shared := 0
	// A library of the tests, cli-utils, needs a later version of this module than Kubernetes.
	delete(product, "github.com/go-errors/errors")
	for module, version := range required(g, "../../../hack/tools/kubernetes/1.37/go.mod") {
		if other, found := product[module]; found && version != "v0.0.0" { // such a version is replaced
			g.Expect(version).To(Equal(other), "go.mod and the go.mod of Kubernetes require %s", module)
			shared++
		}
	}
	g.Expect(shared).To(BeNumerically(">", 50))
}

// required returns the versions of the modules that a go.mod requires.
func required(g *WithT, path string) map[string]string {
	content := must.Get(os.ReadFile(path))(g)
	versions := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`).FindAllStringSubmatch(string(content), -1) {
		versions[match[1]] = match[2]
	}
	return versions
}
