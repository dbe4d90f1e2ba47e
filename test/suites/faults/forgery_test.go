// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/skip"
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

// The negative control: who counts notifications, instead of looking, is fooled.
func TestCountingWatcherIsFooledByForgedNotifications(t *testing.T) {
	skip.UnderShort(t, "a control; TestOneJobTooManyIsSeen is enough to see that the witness can fail")
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "counted", leftToOthers)
	client := goredis.NewClient(&goredis.Options{Addr: fixture.Target.Addr()})
	t.Cleanup(func() { g.Expect(client.Close()).To(Succeed()) })
	counted := client.Subscribe(t.Context(), queue.Channel()).Channel()
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())

	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.Target.publish(t.Context(), 1, "lpush")).To(Succeed())
	for i := range messages + 1 {
		g.Eventually(counted).WithTimeout(fixture.Timeout).Should(Receive(HaveField("Payload", "lpush")))
		g.Expect(queue.createJob(t.Context(), fmt.Sprintf("counted-%d", i))).To(Succeed())
	}
	g.Expect(queue.Expected(t.Context())).To(Equal(messages))
	over, err := fixture.Prove(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("unfinished ones")))
	g.Expect(over).To(Equal(1))
}
