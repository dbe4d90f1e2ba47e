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

	"miracle.dev/scaledjob-operator/test/kit/must"
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
	return must.Get(tryKubectl(t.Context(), args...))(NewWithT(t))
}

func tryKubectl(ctx context.Context, args ...string) (string, error) {
	var output, messages bytes.Buffer
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig=" + shared.Kubeconfig()}, args...)...)
	cmd.Stdout, cmd.Stderr = &output, &messages
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(messages.Bytes()))
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
	removeOperatorAtEnd(t)
	awaitOperator(t)
}

func removeOperatorAtEnd(t *testing.T) {
	t.Helper()
	atEnd(t, "kubectl delete -f dist/install.yaml -l "+ours+" --ignore-not-found --timeout=2m")
}

// removeAllAtEnd removes the Namespace, the CRD and the Redis of the samples too.
func removeAllAtEnd(t *testing.T) {
	t.Helper()
	atEnd(t, "kubectl delete namespace "+system+" --ignore-not-found; "+
		"kubectl delete -f dist/crds.yaml -f dist/install.yaml -f config/samples/redis.yaml --ignore-not-found")
}

func awaitOperator(t *testing.T) {
	t.Helper()
	kubectl(t, "--namespace="+system, "rollout", "status", deployment, "--timeout=3m")
}

// reported has the tests that have failed and of which the state was shown.
var reported = map[*testing.T]bool{}

// atEnd runs a command line at the end of the test. Of a test that has failed it first shows the state, once.
func atEnd(t *testing.T, line string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() && !reported[t] {
			reported[t] = true
			report(ctx, t)
		}
		NewWithT(t).Expect(run(ctx, line)).Error().NotTo(HaveOccurred())
	})
}

// report shows the state of the cluster, and the end of the operator's log.
func report(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, line := range []string{
		"kubectl get scaledjobs -A -o wide",
		"kubectl get jobs -A | tail -n 30",
		"kubectl get pods -A -o wide | tail -n 30",
		"kubectl get events -A --field-selector=type=Warning | tail -n 20",
		"kubectl get pods -A -l " + ours + ` -o jsonpath='{range .items[*]}-n {.metadata.namespace} {.metadata.name}{"\n"}{end}' |` +
			" while read -r pod; do kubectl logs $pod --prefix --tail=30 || true; done",
	} {
		output, _ := run(ctx, line) // The output has the error.
		t.Logf("$ %s\n%s", line, output)
	}
}

// shell runs a command line at the root of the project, with kubectl and helm on its path, and shows what it prints.
func shell(t *testing.T, line string) string {
	t.Helper()
	start := time.Now()
	output := must.Get(run(t.Context(), line))(NewWithT(t))
	t.Logf("$ %s    (%v)\n%s", line, time.Since(start).Round(100*time.Millisecond), output)
	return output
}

func run(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = root(".")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", line, err, bytes.TrimSpace(output))
	}
	return string(output), err
}
