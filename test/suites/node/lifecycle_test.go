// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestWorkIsDone installs the operator by its manifests, and has real containers take messages from a real Redis.
func TestWorkIsDone(t *testing.T) {
	skip.UnderShort(t, "TestReadmeWithKind runs real containers too")
	install(t)
	w := newWork(t)
	w.start(10)
	w.push(12, time.Second)
	w.expectDone()
}

// TestUninstall removes the operator while Jobs run, and installs it again.
func TestUninstall(t *testing.T) {
	skip.UnderShort(t, "takes two minutes; TestRemovingTheOperatorByItsLabelLeavesScaledJobs needs no node")
	g := NewWithT(t)
	install(t)
	w := newWork(t)
	w.start(10)
	w.push(2, 15*time.Second)
	w.push(1, 75*time.Second)
	w.expectRunning(3)

	kubectl(t, "delete", "-f", root("dist/install.yaml"), "-l", ours, "--timeout=2m")
	g.Eventually(func() string { return kubectl(t, "--namespace="+system, "get", "pods", "-o", "name") }).Should(BeEmpty())
	g.Eventually(func() int { return w.number("GET", "done") }).Should(Equal(2), "Jobs finish without the operator")
	w.kubectl("get", "scaledjob", "work")
	w.push(1, time.Second)

	install(t)
	g.Eventually(w.jobs.created).Should(Equal(4), "the running Job counts, and only the new message gets a Job")
	w.expectDone()
}
