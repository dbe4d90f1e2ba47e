// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/operator"
	"miracle.dev/scaledjob-operator/test/witness"
)

// While a ScaledJob is deleted, its Jobs go one after the other, and the operator
// sees that half a second before it sees the deletion. None may be replaced.
func TestDeletion(t *testing.T) {
	t.Parallel()
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	for _, propagation := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground,
	} {
		t.Run(string(propagation), func(t *testing.T) {
			g := NewWithT(t)
			proxy.scaledJobs.Set(0)
			s := newSaturatedSubject(t, namespace, "deleted", operator)
			proxy.scaledJobs.Set(longLag)

			var storm errgroup.Group
			storm.Go(func() error { return s.storm(t.Context()) })
			g.Expect(api.Delete(t.Context(), s.object, client.PropagationPolicy(propagation))).To(Succeed())
			g.Eventually(s.witness.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "Jobs that it controls")
			g.Expect(storm.Wait()).To(Succeed())

			g.Eventually(s.passes).WithArguments(t.Context(), operator).WithTimeout(timeout).
				Should(BeZero(), "passes over a ScaledJob that the operator still knows of")
			g.Expect(s.witness.CatchUp(t.Context())).To(Succeed())
			g.Expect(s.witness.Verdict()).To(BeEmpty())
			g.Expect(s.witness.Created()).To(Equal(saturation), "Jobs that it ever controlled")
		})
	}
}

// A ScaledJob takes the name and the queue of one that the operator takes to be
// alive yet.
func TestRecreation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	first := newSaturatedSubject(t, namespace, "recreated", operator)
	proxy.scaledJobs.Set(longLag)

	g.Expect(api.Delete(t.Context(), first.object, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	second := newSubject(t, namespace, "recreated", 1, saturation)
	g.Expect(second.storm(t.Context())).To(Succeed())
	prove(t, operator, witness.Row{
		Fault:   "recreated with the same name and queue, watches 0.5 s late",
		Promise: "the new ScaledJob gets its Jobs, and those of the old one go",
	}, claim{subject: second, jobs: saturation})
	g.Expect(first.witness.Unfinished()).To(BeEmpty())
	g.Expect(first.witness.Verdict()).To(BeEmpty())
	g.Expect(first.witness.Created()).To(Equal(saturation))
}

// saturation is how many Jobs a saturated subject has.
const saturation = 10

// newSaturatedSubject makes a ScaledJob that is at its limit, as the operator
// knows, with more messages in the queue.
func newSaturatedSubject(t *testing.T, namespace, name string, by *operator.Operator) *subject {
	t.Helper()
	g := NewWithT(t)
	s := newSubject(t, namespace, name, 1, saturation)
	s.awaitSubscription(t)
	g.Expect(s.burst(t.Context(), 10*saturation)).To(Succeed())
	g.Eventually(func(g Gomega) {
		var now scaledjobv1.ScaledJob
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(s.object), &now)).To(Succeed())
		g.Expect(now.Status.ActiveJobs).To(BeEquivalentTo(saturation))
	}).WithTimeout(timeout).Should(Succeed())
	before, err := s.passes(t.Context(), by)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.passes).WithArguments(t.Context(), by).WithTimeout(timeout).Should(BeNumerically(">", before))
	return s
}
