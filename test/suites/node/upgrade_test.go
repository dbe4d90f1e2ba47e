// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestUpgrade replaces the previous version by this one while Jobs run and messages arrive, and goes back to it.
func TestUpgrade(t *testing.T) {
	// tolerable is more than a lease lasts, for a busy machine.
	const tolerable = 30 * time.Second
	g := NewWithT(t)
	kubectl(t, "apply", "-f", previous("install.yaml"))
	removeOperatorAtEnd(t)
	awaitOperator(t)
	w := newWork(t)
	w.start(50)
	w.push(3, 45*time.Second)
	w.expectRunning(3)

	gap := w.reactionDuring(func() {
		kubectl(t, "apply", "-f", root("dist/crds.yaml"), "-f", root("dist/install.yaml"))
		awaitOperator(t)
	})
	g.Expect(gap).To(BeNumerically("<", tolerable))
	t.Logf("upgrade: a message waited up to %v for its Job", gap.Round(time.Millisecond))
	gap = w.reactionDuring(func() {
		kubectl(t, "--namespace="+system, "rollout", "undo", deployment)
		awaitOperator(t)
	})
	g.Expect(gap).To(BeNumerically("<", tolerable))
	t.Logf("rollback: a message waited up to %v for its Job", gap.Round(time.Millisecond))
	w.expectDone()
}

// reactionDuring pushes a message each second while do runs, and returns the longest time from a push to its Job. The
// start of the push takes up to 0.2 s of it.
func (w *work) reactionDuring(do func()) time.Duration {
	w.t.Helper()
	g := NewWithT(w.t)
	before := w.jobs.created()
	var pushes []time.Time
	var failed error
	done := make(chan struct{})
	var pusher sync.WaitGroup
	pusher.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for failed == nil {
			select {
			case <-done:
				return
			case <-ticker.C:
				pushes = append(pushes, time.Now())
				failed = w.tryPush(1, 0)
			}
		}
	})
	do()
	close(done)
	pusher.Wait()
	g.Expect(failed).NotTo(HaveOccurred())
	g.Eventually(w.jobs.created).Should(Equal(before + len(pushes)))
	longest := time.Duration(0)
	for i, seen := range w.jobs.times()[before:] {
		longest = max(longest, seen.Sub(pushes[i]))
	}
	return longest
}
