// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package hack tests hack/test.sh, in a module of its own whose tests fail in each way.
package hack

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	head    = "package broken\n\nimport \"testing\"\n\n"
	guarded = "//go:build race\n\n" + head + `func TestOnlyWithRaceDetector(t *testing.T) { t.Error("has it") }`
)

// files are the module.
var files = map[string]string{
	"go.mod":                          "module example.com/broken\n\ngo 1.26.0\n",
	"internal/queue/fails_test.go":    head + `func TestFails(t *testing.T) { t.Run("row", func(t *testing.T) { t.Error("first half") }) }`,
	"internal/queue/race_test.go":     guarded,
	"internal/jobs/race_test.go":      guarded,
	"internal/jobs/passes_test.go":    head + `func TestPasses(*testing.T) {}`,
	"internal/report/broken_test.go":  head + `func TestBroken(*testing.T) { none() }`,
	"internal/scaling/panics_test.go": head + `func TestPanics(*testing.T) { go panic("told"); select {} }`,
	"internal/retry/main_test.go":     head + `func TestMain(*testing.M) { panic("before the tests") }`,
	"test/suites/api/fails_test.go": head + `func TestFails(t *testing.T) { t.Error("second half") }
		func TestLong(t *testing.T) { if testing.Short() { t.Skip("make test-all: too long") } }`,
}

// newModule writes the module, with the script in it.
func newModule(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	all := maps.Clone(files)
	for _, of := range []string{"test.sh", "programs.sh", "tools/go.mod", "tools/go.sum"} {
		content := must.Get(os.ReadFile(of))(g)
		all["hack/"+of] = string(content)
	}
	root := t.TempDir()
	for path, content := range all {
		programs.Write(t, root, path, content)
	}
	return root
}

// run runs the script, and returns what it prints and its exit code.
func run(t *testing.T, root, tier string, env ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "hack/test.sh", tier)
	cmd.Dir, cmd.Env = root, append(append(os.Environ(), "PACKAGES=", "RUN=", "RACE="), env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestWhatFailsInEitherHalfIsListed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	out, code := run(t, newModule(t), "short")
	g.Expect(code).To(Equal(1), out)
	want := []string{
		"  make test PACKAGES=./internal/queue RUN='^TestFails$'",
		"  make test PACKAGES=./internal/report  # build failed",
		"  make test PACKAGES=./internal/retry  # panic: before the tests",
		"  make test PACKAGES=./internal/scaling  # panic: told",
		"  make test PACKAGES=./test/suites/api RUN='^TestFails$'",
	}
	cgo := must.Get(exec.CommandContext(t.Context(), "go", "env", "CGO_ENABLED").Output())(g)
	if string(cgo) == "1\n" { // Without it there is no race detector.
		want = append(want, "  make test PACKAGES=./internal/queue RUN='^TestOnlyWithRaceDetector$'")
	}
	_, list, _ := strings.Cut(out, "\nThis failed:\n")
	g.Expect(strings.Split(strings.TrimRight(list, "\n"), "\n")).To(ConsistOf(want), out)
	g.Expect(strings.Count(out, "\nDONE ")).To(Equal(3), out)
}

func TestASelectionIsRepeatedWithItsTier(t *testing.T) {
	t.Parallel()
	root := newModule(t)
	for name, c := range map[string]struct {
		tier, packages, run string
		code                int
		says                string
	}{
		"fails":           {"all", "./test/suites/api", "Fails", 1, "This failed:\n  make test-all PACKAGES=./test/suites/api RUN='^TestFails$'\n"},
		"passes":          {"all", "./test/suites/api", "Long", 0, "Tests passed: 1.\n"},
		"skipped":         {"short", "./test/suites/api", "Long", 2, "make test skips every test that matches RUN=Long, for the reasons above.\n"},
		"no such test":    {"short", "./internal/jobs", "None", 2, "No test matches RUN=None in ./internal/jobs.\n"},
		"no such package": {"short", "./internal/none", "", 2, "No such package: ./internal/none.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := run(t, root, c.tier, "PACKAGES="+c.packages, "RUN="+c.run)
			NewWithT(t).Expect(code).To(Equal(c.code), out)
			NewWithT(t).Expect(out).To(ContainSubstring(c.says))
		})
	}
}
