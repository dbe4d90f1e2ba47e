// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"os/exec"
	"path/filepath"
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

func TestBuildStampsTheVersion(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	program := "package main\n\nvar gitVersion, gitMajor, gitMinor string\n\nfunc main() { println(gitVersion, gitMajor, gitMinor) }\n"
	g.Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n\ngo 1.26\n"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600)).To(Succeed())
	target := filepath.Join(t.TempDir(), "example")

	g.Expect(source{command: ".", stamped: "main"}.build(t.Context(), progress.Start(nil, ""), dir, "v1.36.3", target)).To(Succeed())
	output, err := exec.Command(target).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(output)).To(Equal("v1.36.3 1 36\n"))
}
