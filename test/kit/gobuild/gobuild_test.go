// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	build := Build{Dir: write(t, "part.Say()"), Packages: []string{"."}, Output: filepath.Join(t.TempDir(), "example")}
	watch := &watcher{line: progress.Start(nil, "")}
	stale, total, err := build.stale(t.Context(), watch)
	g.Expect(err).NotTo(HaveOccurred())
	part, err := os.Stat(filepath.Join(build.Dir, "part/part.go"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stale).To(And(HaveLen(2), HaveKeyWithValue("example/part", Work(part.Size())+perPackage)))
	g.Expect(total).To(BeNumerically(">", stale["example"]+stale["example/part"]), "the runtime belongs to the program")

	g.Expect(build.Run(t.Context(), watch.line)).To(Succeed())
	output, err := exec.Command(build.Output).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(output)).To(Equal("built in " + build.Dir + "\n"))
	stale, again, err := build.stale(t.Context(), watch)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stale).NotTo(HaveKey("example/part"), "it is in the cache")
	g.Expect(again).To(Equal(total))
}

func TestBuildSaysWhatTheCompilerSaid(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	build := Build{Dir: write(t, "part.Say(); mistake"), Packages: []string{"."}}

	err := build.Run(t.Context(), progress.Start(nil, ""))
	g.Expect(err).To(MatchError(ContainSubstring("undefined: mistake")))
	g.Expect(err).NotTo(MatchError(ContainSubstring("\nexample/part\n")))
}

func TestProgressIsNoMessage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	watch := &watcher{line: progress.Start(nil, "")}
	g.Expect(watch.read(strings.NewReader("go: downloading a v1\ngo: downloading b v1\ngo: a is wrong\n"))).To(Equal("go: a is wrong\n"))
	g.Expect(watch.downloaded).To(Equal(2))

	watch.compile(map[string]Work{"unicode": 10, "example/a": 20, "example/b": 30})
	g.Expect(watch.read(strings.NewReader("unicode\ngo: downloading c v1\nexample/a\n# example/b\nb.go:1:2: wrong\n"))).
		To(Equal("# example/b\nb.go:1:2: wrong\n"))
	g.Expect(watch.downloaded).To(Equal(3))
	g.Expect(watch.stale).To(Equal(map[string]Work{"example/b": 30}))
	g.Expect(watch.left).To(BeEquivalentTo(30))
}

// The trial at the beginning counts less and less.
func TestEstimateFollowsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pace := Pace{work: 1000, time: 1}
	g.Expect(pace.Estimate(500)).To(Equal(500 * time.Millisecond))
	pace.compiled(1000, 3*time.Second)
	g.Expect(pace.Estimate(500)).To(Equal(time.Second))
	pace.compiled(98_000, 96*time.Second)
	g.Expect(pace.Estimate(500)).To(Equal(500 * time.Millisecond))
}

func TestEstimateBeginsWithATrial(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var pace Pace
	g.Expect(pace.Estimate(1_000_000)).To(BeNumerically(">", time.Millisecond))
}
