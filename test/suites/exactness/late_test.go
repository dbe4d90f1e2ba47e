// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// createsAtOnce is how many creates of a ScaledJob are under way at a time.
	createsAtOnce = 16
	// firstCreates are those before as many are under way as may be: 1, 2, 4, 8 and 16.
	firstCreates = 2*createsAtOnce - 1
	// createsPerReconcile is how many come from one look at its Jobs and its queue.
	createsPerReconcile = 512
)

// The operator dies with creates under way, and the API server carries them out
// only after the next operator has created what it takes to be missing. They are
// not the last that were sent, so that the next one sees Jobs that came after
// them.
func TestCreatesCarriedOutAfterTheNextOperator(t *testing.T) {
	t.Parallel()
	const messages = 100
	g := NewWithT(t)
	namespace, former := newNamespace(t), startProxy(t)
	killed := startOperator(t, former, []string{namespace})
	s := newScaledJob(t, namespace, "bursting", 1, messages)
	s.awaitSubscription(t)
	late := former.holdCreates(firstCreates, 2)

	g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	g.Expect(killed.Kill()).To(Succeed())
	g.Eventually(late.Abandoned).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	g.Expect(s.Witness.Created()).To(BeNumerically("<", messages-createsAtOnce), "Jobs at the moment of the kill")

	next := startOperator(t, startProxy(t), []string{namespace})
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", messages))
	g.Expect(late.Release()).To(Succeed())
	prove(t, next, witness.Row{
		Fault:   "kill -9 with 16 creates under way, which are carried out once the next operator is done",
		Promise: "the next operator takes their names first, so that they fail",
	}, claim{scaledJob: s, jobs: messages})
}

// The same in a storm, with Jobs that finish and are deleted all the time: their
// names are missing as well, below those of the creates under way.
func TestCreatesOfAStormCarriedOutAfterTheNextOperator(t *testing.T) {
	skip.UnderShort(t, "TestCreatesCarriedOutAfterTheNextOperator is the same with fewer messages")
	t.Parallel()
	g := NewWithT(t)
	namespace, former := newNamespace(t), startProxy(t)
	killed := startOperator(t, former, []string{namespace})
	s := newScaledJob(t, namespace, "worked", 1, saturation)
	s.awaitSubscription(t)
	former.lag(longLag)

	goHome := putToWork(t, s)
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", 4*saturation))
	late := former.holdCreates(0, 1)
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">", 0))
	g.Expect(killed.Kill()).To(Succeed())
	finished := goHome()

	next := startOperator(t, startProxy(t), []string{namespace})
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation+finished))
	g.Expect(late.Release()).To(Succeed())
	prove(t, next, witness.Row{
		Fault: "kill -9 in a storm with creates under way, which are carried out once the next operator is done," +
			" after older Jobs were deleted",
		Promise: "the next operator takes their names first, so that they fail",
	}, claim{scaledJob: s, jobs: saturation + finished})
}
