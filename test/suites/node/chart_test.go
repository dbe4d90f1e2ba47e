// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestChart installs the chart, upgrades it, and uninstalls it while a Job runs.
func TestChart(t *testing.T) {
	skip.UnderShort(t, "TestHelmUpgradesAndUninstalls tests the same without containers")
	g := NewWithT(t)
	deleteCRD(t) // one that was not installed by Helm is not Helm's to upgrade
	helmInstall(t, "scaledjob-operator", system, "--create-namespace")
	w := newWork(t)
	w.start(10)
	w.push(2, time.Second)
	w.push(1, 40*time.Second)
	w.expectRunning(1)

	shell(t, "helm upgrade scaledjob-operator "+chart(t)+" --namespace "+system+" --reuse-values --set controller.maxConcurrentReconciles=8 --wait")
	shell(t, "helm uninstall scaledjob-operator --namespace "+system+" --wait")
	kubectl(t, "get", "crd", "scaledjobs.batch.miracle.dev")
	w.kubectl("get", "scaledjob", "work")
	g.Eventually(func() int { return w.number("GET", "done") }).Should(Equal(3), "Jobs finish without the operator")

	helmInstall(t, "scaledjob-operator", system)
	w.push(1, 0)
	w.expectDone()
	shell(t, "helm uninstall scaledjob-operator --namespace "+system+" --wait")
	deleteCRD(t)
}

// TestRolesOnly installs the chart for one namespace, in that namespace. The namespace enforces the Pod security
// standard "restricted", for the operator and for its Jobs.
func TestRolesOnly(t *testing.T) {
	skip.UnderShort(t, "TestRoleOnlyIsEnoughToWork tests the same with a process")
	g := NewWithT(t)
	kubectl(t, "apply", "-f", root("dist/crds.yaml"))
	w := newWork(t)
	w.kubectl("label", "namespace", w.namespace, "pod-security.kubernetes.io/enforce=restricted")
	helmInstall(t, "mine", w.namespace, "--set", "crds.enabled=false", "--set", "watchNamespaces={"+w.namespace+"}")
	cluster := kubectl(t, "get", "clusterroles,clusterrolebindings", "-l", ours, "-o", "name")
	g.Expect(cluster).To(BeEmpty(), "roles of the whole cluster")

	w.start(10)
	w.push(3, time.Second)
	w.expectDone()
	logs := w.kubectl("logs", "--all-pods", "-l", ours, "--tail=-1")
	g.Expect(logs).NotTo(MatchRegexp("(?i)forbidden"))
}

// chart returns the path of the chart.
func chart(t *testing.T) string {
	t.Helper()
	charts := must.Get(filepath.Glob(root("dist/*.tgz")))(NewWithT(t))
	NewWithT(t).Expect(charts).To(HaveLen(1))
	return strings.TrimPrefix(charts[0], root("")+"/")
}

// helmInstall installs the chart and waits until the operator is ready. It is uninstalled at the end of the test,
// unless that has been done.
func helmInstall(t *testing.T, release, namespace string, args ...string) {
	t.Helper()
	words := append([]string{"helm", "install", release, chart(t), "--namespace", namespace, "--wait", "--timeout=3m"}, args...)
	shell(t, strings.Join(words, " "))
	atEnd(t, "helm uninstall "+release+" --namespace "+namespace+" --ignore-not-found --wait")
}

// deleteCRD deletes the CRD and waits until it is gone. There must be no ScaledJob.
func deleteCRD(t *testing.T) {
	t.Helper()
	kubectl(t, "delete", "crd", "scaledjobs.batch.miracle.dev", "--ignore-not-found", "--timeout=2m")
}
