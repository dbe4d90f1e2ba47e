// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

func TestPinnedModulesAreFound(t *testing.T) {
	t.Parallel()
	for _, program := range slices.Concat(ControlPlane(), Node()) {
		t.Run(string(program), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			source := sources[program]
			dir, err := source.dir()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(source.version(dir)).To(MatchRegexp(`^v\d+\.\d+\.\d+$`))
		})
	}
}

func TestVersionIsTheOneRequired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ goMod, want string }{
		"in a block": {goMod: "module x\n\nrequire (\n\tk8s.io/api v0.36.3\n\tk8s.io/kubernetes v1.36.3\n)\n", want: "v1.36.3"},
		"alone":      {goMod: "module x\n\nrequire k8s.io/kubernetes v1.36.3\n", want: "v1.36.3"},
		"indirect":   {goMod: "module x\n\nrequire (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n", want: "v1.36.3"},
		"tool first": {goMod: "module x\n\ntool k8s.io/kubernetes/cmd/x\n\nrequire k8s.io/kubernetes v1.36.3\n", want: "v1.36.3"},
		"absent":     {goMod: "module x\n\nrequire k8s.io/kubernetes-other v1.36.3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dir := t.TempDir()
			g.Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(test.goMod), 0o600)).To(Succeed())

			version, err := source{module: "k8s.io/kubernetes"}.version(dir)
			g.Expect(version).To(Equal(test.want))
			g.Expect(err == nil).To(Equal(test.want != ""))
		})
	}
}

// Programs of a module are built by one command, and each is then where it is expected, whatever go build calls it.
func TestProgramsOfAModuleAreBuiltTogether(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for path, content := range map[string]string{
		"go.mod":            "module example\n\ngo 1.26\n",
		"stamp/stamp.go":    "package stamp\n\nvar gitVersion string\n\nfunc Version() string { return gitVersion }\n",
		"first/main.go":     "package main\n\nimport \"example/stamp\"\n\nfunc main() { println(stamp.Version()) }\n",
		"server/v3/main.go": "package main\n\nfunc main() { println(\"second\") }\n",
	} {
		path = filepath.Join(dir, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	sources["first"] = source{command: "example/first", stamped: "example/stamp"}
	sources["second"] = source{command: "example/server/v3"}
	t.Cleanup(func() { delete(sources, "first"); delete(sources, "second") })
	first, second := build{"first", dir, "v1.36.3"}, build{"second", dir, "v3.7.3"}
	targets := map[build]string{first: filepath.Join(t.TempDir(), "first"), second: filepath.Join(t.TempDir(), "second")}
	g.Expect(compile(t.Context(), targets, progress.Start(nil, ""))).To(Succeed())
	for program, prints := range map[build]string{first: "v1.36.3\n", second: "second\n"} {
		output, err := exec.Command(targets[program]).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(output)).To(Equal(prints))
	}
}

func TestStampIsTheVersion(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(sources[KubeAPIServer].stamp("v1.36.3")).To(Equal("-X k8s.io/component-base/version.gitVersion=v1.36.3 " +
		"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"))
	g.Expect(sources[Etcd].stamp("v3.7.3")).To(BeEmpty())
}

func TestFileIsTheOneOfGoBuild(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for program, file := range map[Program]string{Etcd: "server", KubeAPIServer: "kube-apiserver", CoreDNS: "coredns"} {
		g.Expect(sources[program].file()).To(Equal(file))
	}
}

// What the control plane and the product both import is compiled once only if it has the same version in both.
func TestControlPlaneAndProductShareVersions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir, err := sources[KubeAPIServer].dir()
	g.Expect(err).NotTo(HaveOccurred())
	dir = filepath.Join(filepath.Dir(dir), defaultMinor)
	product := required(g, filepath.Join(dir, "../../../../../../go.mod"))
	shared := 0
	// A library of the tests, cli-utils, needs a later version of this module than Kubernetes.
	delete(product, "github.com/go-errors/errors")
	for module, version := range required(g, filepath.Join(dir, "go.mod")) {
		if other, found := product[module]; found && version != "v0.0.0" { // such a version is replaced
			g.Expect(version).To(Equal(other), "go.mod and the go.mod of Kubernetes require %s", module)
			shared++
		}
	}
	g.Expect(shared).To(BeNumerically(">", 50))
}

// required returns the versions of the modules that a go.mod requires.
func required(g *WithT, path string) map[string]string {
	content, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	versions := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`).FindAllStringSubmatch(string(content), -1) {
		versions[match[1]] = match[2]
	}
	return versions
}
