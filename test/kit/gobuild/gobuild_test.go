// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// write writes a module with a program and a package, both of them new to the build cache.
func write(t *testing.T, main string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	g := NewWithT(t)
	for path, content := range map[string]string{
		"go.mod":       "module example\n\ngo 1.26\n",
		"main.go":      "package main\n\nimport \"example/part\"\n\nfunc main() { " + main + " }\n",
		"part/part.go": "// Package part is in " + dir + ".\npackage part\n\nfunc Say() { println(\"built in " + dir + "\") }\n",
	} {
		path = filepath.Join(dir, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return dir
}

func TestBuildCountsWhatItCompiles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	build := Build{Dir: write(t, "part.Say()"), Package: "."}
	count := counter{line: progress.Start(nil, "")}
	g.Expect(build.stale(t.Context(), &count)).To(Equal(2))

	target := filepath.Join(t.TempDir(), "example")
	g.Expect(build.Run(t.Context(), count.line, target)).To(Succeed())
	output, err := exec.Command(target).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(output)).To(Equal("built in " + build.Dir + "\n"))
	g.Expect(build.stale(t.Context(), &count)).To(BeNumerically("<", 2), "the package part is in the cache")
}

func TestBuildSaysWhatTheCompilerSaid(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	build := Build{Dir: write(t, "part.Say(); mistake"), Package: "."}

	err := build.Run(t.Context(), progress.Start(nil, ""), filepath.Join(t.TempDir(), "example"))
	g.Expect(err).To(MatchError(ContainSubstring("undefined: mistake")))
	g.Expect(err).NotTo(MatchError(ContainSubstring("\nexample/part\n")))
}

func TestProgressIsNoMessage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	count := counter{line: progress.Start(nil, "")}
	g.Expect(count.read(strings.NewReader("go: downloading a v1\ngo: downloading b v1\ngo: a is wrong\n"))).To(Equal("go: a is wrong\n"))
	g.Expect(count.downloaded).To(Equal(2))

	count.compiling = true
	g.Expect(count.read(strings.NewReader("unicode\ngo: downloading c v1\nexample/a\n# example/b\nb.go:1:2: wrong\n"))).
		To(Equal("# example/b\nb.go:1:2: wrong\n"))
	g.Expect(count.downloaded).To(Equal(3))
	g.Expect(count.compiled).To(Equal(2))
}
