// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// messages is how many the neighbour gets, one after the other.
const messages = 20

// neighbour is a ScaledJob of another namespace, which has done nothing.
type neighbour struct {
	*scene.Test
	Gomega
	t *testing.T
}

// newNeighbour returns a neighbour that has been served already.
func newNeighbour(t *testing.T, by *scene.ScaledJob) *neighbour {
	t.Helper()
	n := &neighbour{Test: scene.NewTest(t, timeout, by), Gomega: NewWithT(t), t: t}
	n.Create(immediate)
	n.Expect(n.Observe(t.Context(), shared.Cluster.Config(), n.Due)).To(Succeed())
	n.AwaitSubscription()
	n.AwaitTemplateChecked()
	n.served(1)
	return n
}

// ours returns a ScaledJob that the operator serves, not created yet.
func ours(t *testing.T) *scene.ScaledJob {
	t.Helper()
	namespace := shared.Cluster.NewNamespace(t, "neighbour")
	return &scene.ScaledJob{
		API: shared.API, Redis: redis.Client(), Address: redis.Addr(), Operator: running,
		Namespace: namespace, Name: "victim", Queue: namespace + ":victim",
	}
}

// served pushes messages one after the other, each when the Job of the one before is there.
func (n *neighbour) served(count int) {
	n.t.Helper()
	for range count {
		n.Push(1)
		n.Expect(n.Witness.AwaitCreated(n.t.Context(), n.Pushed())).To(Succeed(), n.Explain)
	}
}

// edited changes the template, and returns when all Jobs were replaced and the status tells so.
func (n *neighbour) edited() {
	n.t.Helper()
	jobs := n.Pushed()
	n.Update(otherImage)
	n.Expect(n.Witness.AwaitCreated(n.t.Context(), jobs+n.Due())).To(Succeed(), n.Explain)
	n.Eventually(func() int32 { return n.Status().ActiveJobs }).Should(BeEquivalentTo(n.Due()), n.Explain)
}

func TestANeighbourIsServedWhileANamespaceDoesItsWorst(t *testing.T) {
	for _, each := range scene.RowsNamed(attacks(), func(a attack) string { return a.name }, "dry runs hang") {
		t.Run(each.name, func(t *testing.T) {
			n := newNeighbour(t, ours(t))
			n.expectServed(each.begin(newHostile(t)))
		})
	}
}

// expectServed asserts that the neighbour is served before more has come to its end than it has messages. Whoever waits
// for workers that others hold gets them only when something of the others ends.
func (n *neighbour) expectServed(ended ...func() int) {
	n.t.Helper()
	before := sum(ended)
	n.served(messages)
	during := sum(ended) - before
	n.t.Logf("%d Jobs of the neighbour came while %d requests of the hostile namespace came to their end", messages, during)
	n.Expect(during).To(BeNumerically("<", messages))
	n.edited()
	n.Expect(n.Witness.Verdict()).To(BeEmpty())
}

func sum(counts []func() int) (total int) {
	for _, count := range counts {
		if count != nil {
			total += count()
		}
	}
	return total
}

func TestANeighbourIsServedWhileANamespaceDoesItsWorstInAllWays(t *testing.T) {
	n := newNeighbour(t, ours(t))
	var ended []func() int
	for _, each := range attacks() {
		ended = append(ended, each.begin(newHostile(t)))
	}
	n.expectServed(ended...)
}
