// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	system     = "scaledjob-operator-system"
	deployment = "deployment/scaledjob-operator-manager"
	// ours selects all objects of the operator but its Namespace, as the documents have it.
	ours = "app.kubernetes.io/name=scaledjob-operator"
)

// kubectl runs kubectl as the administrator, and returns what it prints.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := tryKubectl(t.Context(), args...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return output
}

func tryKubectl(ctx context.Context, args ...string) (string, error) {
	var output, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig=" + shared.Kubeconfig()}, args...)...)
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("kubectl %q: %w: %s", args, err, bytes.TrimSpace(complaint.Bytes()))
	}
	return output.String(), nil
}

// apply applies a manifest.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	NewWithT(t).Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
	kubectl(t, "--namespace="+namespace, "apply", "-f", file)
}

// root returns the path of a file of the project.
func root(path string) string { return filepath.Join("../../..", path) }

// previous returns the path of a file of the previous version, made by the same command.
func previous(path string) string { return filepath.Join(root("bin/previous"), path) }

// install installs the CRD and the operator of this tree, and removes the operator at the end of the test.
func install(t *testing.T) {
	t.Helper()
	kubectl(t, "apply", "-f", root("dist/crds.yaml"), "-f", root("dist/install.yaml"))
	uninstallAfter(t)
	awaitOperator(t)
}

func uninstallAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			report(ctx, t)
		}
		_, err := tryKubectl(ctx, "delete", "-f", root("dist/install.yaml"), "-l", ours, "--ignore-not-found", "--timeout=2m")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	})
}

// installed removes what the test leaves behind, CRD and samples included.
func installed(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			report(ctx, t)
		}
		_, err := run(ctx, "kubectl delete namespace "+system+" --ignore-not-found; "+
			"kubectl delete -f dist/crds.yaml -f dist/install.yaml -f config/samples/redis.yaml --ignore-not-found")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	})
}

func awaitOperator(t *testing.T) {
	t.Helper()
	kubectl(t, "--namespace="+system, "rollout", "status", deployment, "--timeout=3m")
}

// report shows what an operator did in a test that has failed.
func report(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, args := range []string{
		"get pods,jobs,scaledjobs -A -o wide",
		"get events -A",
		"--namespace=" + system + " describe pods",
		"--namespace=" + system + " logs --prefix --all-pods " + deployment,
	} {
		output, err := tryKubectl(ctx, strings.Fields(args)...)
		t.Logf("kubectl %s:\n%s%v", args, output, err)
	}
}

// shell runs a command line at the root of the project, with kubectl and helm on its path, and shows what it prints.
func shell(t *testing.T, line string) string {
	t.Helper()
	start := time.Now()
	output, err := run(t.Context(), line)
	t.Logf("$ %s    (%v)\n%s", line, time.Since(start).Round(100*time.Millisecond), output)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), line)
	return output
}

func run(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = root(".")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	output, err := cmd.CombinedOutput()
	return string(output), err
}
