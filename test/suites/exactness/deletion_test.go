// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// A ScaledJob is deleted while creates for it are under way. They are carried out
// when it is gone with all Jobs that it had, and long before the operator hears.
func TestDeletionInMidBatch(t *testing.T) {
	t.Parallel()
	for name, propagation := range scene.Rows(t, map[string]metav1.DeletionPropagation{
		"foreground": metav1.DeletePropagationForeground, "background": metav1.DeletePropagationBackground,
	}, "background") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The first creates are 1, 2, 4 and 8 at the same time. Those after them are 16.
			const messages, before = 2 * createsPerReconcile, 1 + 2 + 4 + 8
			g := NewWithT(t)
			namespace, proxy := newNamespace(t), startProxy(t)
			operator := startOperator(t, proxy, []string{namespace})
			s := newScaledJob(t, namespace, "deleted", 1, messages)
			s.awaitSubscription(t)
			proxy.jobs.Set(shortLag)
			proxy.scaledJobs.Set(frozen)
			late := proxy.holdCreates(before, 1)

			g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
			g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
			g.Expect(api.Delete(t.Context(), s.Object, client.PropagationPolicy(propagation))).To(Succeed())
			g.Eventually(api.Get).WithArguments(t.Context(), client.ObjectKeyFromObject(s.Object), &scaledjobv1.ScaledJob{}).
				WithTimeout(timeout).Should(MatchError(apierrors.IsNotFound, "not found"))
			g.Eventually(s.Witness.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "Jobs before the creates are carried out")
			decided := s.Witness.Created() + late.Held() + createsPerReconcile
			g.Expect(late.Release()).To(Succeed())
			s.awaitReconciles(t, operator, restReconciles)
			proxy.scaledJobs.Set(longLag)
			proveGone(t, operator, witness.Row{
				Fault:   fmt.Sprintf("deleted (%s) with 16 creates under way, which are carried out when it is gone", propagation),
				Promise: "no more creates follow than the operator had decided on, and all Jobs go",
			}, claim{scaledJob: s, jobs: decided})
		})
	}
}

// proveGone waits until the ScaledJob of the claim has no Job left and the
// operator has forgotten it, and then holds the claim, which is how many Jobs it
// may have had at most, against what the witness saw.
func proveGone(t *testing.T, by *operator.Operator, fault witness.Row, c claim) {
	t.Helper()
	defer func() {
		_, fault.Over = balance([]claim{c})
		table.Add(fault)
	}()
	g, ended, s := NewWithT(t), time.Now(), c.scaledJob
	g.Eventually(s.reconciles).WithArguments(t.Context(), by).WithTimeout(timeout).
		Should(BeZero(), "reconciles of a ScaledJob that the operator still knows of")
	g.Expect(scene.Pause(t.Context(), longLag)).To(Succeed())
	g.Expect(s.Witness.CatchUp(t.Context())).To(Succeed())
	g.Eventually(s.Witness.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "Jobs that it controls")
	fault.Recovery = time.Since(ended)
	g.Expect(s.Witness.Verdict()).To(BeEmpty())
	g.Expect(s.Witness.Created()).To(BeNumerically("<=", c.jobs), "Jobs that it ever controlled")
}

// A ScaledJob takes the name and the queue of one that the operator takes to be
// alive yet.
func TestRecreation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	first := newSaturatedScaledJob(t, namespace, "recreated", operator)
	proxy.scaledJobs.Set(longLag)

	g.Expect(api.Delete(t.Context(), first.Object, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	second := newScaledJob(t, namespace, "recreated", 1, saturation)
	g.Expect(second.storm(t.Context())).To(Succeed())
	prove(t, operator, witness.Row{
		Fault:   "recreated with the same name and queue, watches 0.5 s late",
		Promise: "the new ScaledJob gets its Jobs, and those of the old one go",
	}, claim{scaledJob: second, jobs: saturation})
	g.Eventually(first.Witness.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "the garbage collector takes its time")
	g.Expect(first.Witness.Verdict()).To(BeEmpty())
	g.Expect(first.Witness.Created()).To(Equal(saturation))
}
