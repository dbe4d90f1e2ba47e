// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	// leastBetweenWakes is how long notifications of one queue are gathered before
	// they have the operator look again.
	leastBetweenWakes = 25 * time.Millisecond
	// otherPasses are those that have other causes.
	otherPasses = 20
	// manyForgeries are more than there may be reconciles, however slow the machine is.
	manyForgeries = 20_000
)

// However many notifications there are, they cost a few reconciles, and no Job.
func TestForgedNotificationsCostFewPasses(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "growing")
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitRest(t.Context())).To(Succeed())
	before, err := queue.Reconciles(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	began := time.Now()
	forged := 0
	for forged < manyForgeries {
		g.Expect(fixture.Target.publish(t.Context(), forgedAtOnce, nonsense...)).To(Succeed())
		forged += forgedAtOnce * len(nonsense)
	}
	g.Expect(fixture.AwaitRest(t.Context())).To(Succeed())
	atMost := int(time.Since(began)/leastBetweenWakes) + otherPasses

	after, err := queue.Reconciles(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("%d forged notifications cost %d reconciles, and %d are allowed", forged, after-before, atMost)
	g.Expect(after).To(BeNumerically(">", before), "they came")
	g.Expect(after - before).To(BeNumerically("<=", atMost))
	g.Expect(forged).To(BeNumerically(">", atMost), "one reconcile each would be too many")
	over, err := fixture.Prove(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(over).To(BeZero())
}
