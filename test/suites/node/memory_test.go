// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestLeaderRunsOutOfMemory has the kernel kill the leader in the middle of a burst. The Jobs are suspended: what counts
// is how many there are.
func TestLeaderRunsOutOfMemory(t *testing.T) {
	const messages = 1000
	g := NewWithT(t)
	install(t)
	w := newWork(t)
	w.start(messages, "suspend: true")

	pod := leader(t)
	id := kubectl(t, "--namespace="+system, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	_, id, _ = strings.Cut(id, "://")
	g.Expect(machine.LimitMemoryToUsage(id)).To(Succeed())
	w.push(messages, time.Second)
	g.Eventually(func() string {
		return kubectl(t, "--namespace="+system, "get", "pod", pod, "-o",
			"jsonpath={.status.containerStatuses[0].lastState.terminated.reason}")
	}).Should(Equal("OOMKilled"))
	t.Logf("at the end of the leader there were %d Jobs", w.jobs.created())

	g.Eventually(w.jobs.created).Should(Equal(messages))
	awaitOperator(t)
	w.push(1, time.Second) // beyond maxReplicas
	g.Eventually(func() string { return w.kubectl("get", "scaledjob", "work", "-o", "jsonpath={.status.queueDepth}") }).Should(Equal("1001"))
	g.Expect(w.jobs.created()).To(Equal(messages))
}
