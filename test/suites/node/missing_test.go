// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestWhatIsMissingIsSaid starts the operator with a CRD that lacks a field, then without the permission to lead. It is
// never ready, says what to do, and starts as soon as it can.
func TestWhatIsMissingIsSaid(t *testing.T) {
	skip.UnderShort(t, "the suites behaviour and install test the same with a process")
	g := NewWithT(t)
	crd := must.Get(os.ReadFile(root("dist/crds.yaml")))(g)
	apply(t, "default", strings.Replace(string(crd), " queueDepth:\n", " earlierName:\n", 1))
	kubectl(t, "apply", "-f", root("dist/install.yaml"))
	removeOperatorAtEnd(t)
	g.Eventually(logs).WithArguments(t).Should(And(ContainSubstring("status.queueDepth"), ContainSubstring("crds.yaml")))
	g.Expect(readyReplicas(t)).To(BeEmpty())

	kubectl(t, "--namespace="+system, "delete", "rolebinding", "-l", ours)
	kubectl(t, "apply", "-f", root("dist/crds.yaml"))
	g.Eventually(logs).WithArguments(t).Should(ContainSubstring("leases.coordination.k8s.io"))
	g.Expect(readyReplicas(t)).To(BeEmpty())

	kubectl(t, "apply", "-f", root("dist/install.yaml"))
	awaitOperator(t)
}

// TestNodeWithoutMemory asks for more memory than there is. The replicas that run go on.
func TestNodeWithoutMemory(t *testing.T) {
	skip.UnderShort(t, "tests the words of the scheduler")
	g := NewWithT(t)
	install(t)
	w := newWork(t)
	w.start(10)
	kubectl(t, "--namespace="+system, "set", "resources", deployment, "--requests=memory=1Ti", "--limits=memory=1Ti")
	g.Eventually(func() string {
		return kubectl(t, "--namespace="+system, "get", "events", "--field-selector=reason=FailedScheduling", "-o", "jsonpath={.items[*].message}")
	}).Should(ContainSubstring("Insufficient memory"))
	w.push(1, 0)
	w.expectDone()
}

// TestImageOfAnotherArchitecture loads the archive that is not for this node.
func TestImageOfAnotherArchitecture(t *testing.T) {
	skip.UnderShort(t, "tests the words of containerd")
	g := NewWithT(t)
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	archives := must.Get(filepath.Glob(root("dist/*-linux-" + other + ".tar")))(g)
	g.Expect(archives).To(HaveLen(1))
	t.Cleanup(func() { g.Expect(importOperators(context.WithoutCancel(t.Context()))).To(Succeed()) })
	err := shared.ImportImage(t.Context(), archives[0])
	t.Logf("the container runtime says: %v", err)
	g.Expect(err).To(MatchError(ContainSubstring("filtered out")))
}

// logs returns what all replicas have logged.
func logs(t *testing.T) string {
	t.Helper()
	// Until the container runs, there is no log.
	output, err := tryKubectl(t.Context(), "--namespace="+system, "logs", "--all-pods", deployment, "--tail=-1")
	if err != nil {
		return err.Error()
	}
	return output
}

func readyReplicas(t *testing.T) string {
	t.Helper()
	return kubectl(t, "--namespace="+system, "get", deployment, "-o", "jsonpath={.status.readyReplicas}")
}
