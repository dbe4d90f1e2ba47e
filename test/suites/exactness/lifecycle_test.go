// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

func TestKilledInMidBurst(t *testing.T) {
	t.Parallel()
	killInMidBurst(t, 2000, []int{100, 600, 1200})
}

func TestKilledInMidBurstWhileKeysAreTracked(t *testing.T) {
	t.Parallel()
	killInMidBurst(t, 400, []int{100, 250}, scene.Tracking)
}

// killInMidBurst kills the operator whenever there are so many Jobs.
func killInMidBurst(t *testing.T, messages int, kills []int, changes ...scene.Change) {
	t.Helper()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "bursting", 1, int32(messages), changes...)
	s.awaitSubscription(t)
	proxy.lag(shortLag)

	g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	for _, jobs := range kills {
		g.Eventually(s.Witness.Created).WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeNumerically(">=", jobs))
		g.Expect(operator.Kill()).To(Succeed())
		g.Expect(s.Witness.Created()).To(BeNumerically("<", messages), "Jobs at the moment of the kill")
		operator = startOperator(t, proxy, []string{namespace})
	}
	prove(t, operator, witness.Row{
		Fault:   fmt.Sprintf("kill -9 in a burst of %d, %d times, watches 0.1 s late", messages, len(kills)),
		Promise: "the next operator counts what the one before has created",
	}, claim{scaledJob: s, jobs: messages})
}

// The operator is told to stop with creates under way, which are answered only
// after it has begun to stop.
func TestStoppedInMidBatch(t *testing.T) {
	skip.UnderShort(t, "TestKilledInMidBurst ends the operator without notice, which is harder")
	t.Parallel()
	// By the batches of one that is careful, 1, 2, 4, 8 and 16, so that the last of these is under way as a whole.
	const messages, before = 100, createsAtOnce - 1
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	stopped := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "bursting", 1, messages)
	s.awaitSubscription(t)
	proxy.lag(longLag)
	late := proxy.holdCreates(before, 1)

	g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	g.Eventually(late.Held).WithTimeout(timeout).Should(Equal(createsAtOnce))
	var stop errgroup.Group
	stop.Go(func() error { return stopped.Stop(t.Context()) })
	s.awaitSilence(t)
	g.Expect(late.Release()).To(Succeed())
	g.Expect(stop.Wait()).To(Succeed(), "with status 0")
	g.Expect(late.Abandoned()).To(BeZero(), "creates that the operator did not wait for")
	g.Expect(s.Witness.CatchUp(t.Context())).To(Succeed())
	g.Expect(s.Witness.Created()).To(Equal(before+createsAtOnce), "Jobs of the operator that was stopped")

	next := startOperator(t, proxy, []string{namespace})
	prove(t, next, witness.Row{
		Fault:   "SIGTERM with 16 creates under way",
		Promise: "they end with an answer, no other begins, and the next operator goes on from there",
	}, claim{scaledJob: s, jobs: messages})
}
