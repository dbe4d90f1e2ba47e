// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuekit "miracle.dev/scaledjob-operator/test/kit/kueue"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// The tests of this file stop what the others share. None of them runs at the same time as another one.

func TestKueueIsKilledInABurst(t *testing.T) {
	skip.UnderShort(t, "the suites exactness and fairness test webhooks that fail")
	const messages = 20
	s := newStage(t)
	s.quota(quotaOf)
	s.create()
	s.Push(messages)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	s.Expect(s.Jobs.AwaitCreated(ctx, quotaOf)).To(Succeed())
	s.Expect(kueue.Kill()).To(Succeed())
	s.Push(messages)
	s.expectCreatesFail()
	s.Expect(kueue.Start(t.Context())).To(Succeed())
	s.finishAll()
	s.expectDone(2 * messages)
	s.Expect(s.beyond(quotaOf)).To(BeEmpty())
}

func TestTheOperatorIsKilledInABurst(t *testing.T) {
	skip.UnderShort(t, "the suite exactness kills the operator without Kueue")
	const messages = 20
	s := newStage(t)
	s.quota(quotaOf)
	s.create(pendingAtMost(quotaOf))
	s.Push(messages)
	s.expectWorking(quotaOf)
	s.finish(2)
	s.Expect(running.Kill()).To(Succeed())
	s.finish(2)
	running = must.Get(startOperator(t.Context()))(s)
	s.Operator = running
	s.finishAll()
	s.expectDone(messages)
	s.Expect(s.beyond(quotaOf)).To(BeEmpty())
}

// Kueue's webhooks are asked about the Jobs of each namespace that its administrator has not excluded, with or without
// the label of a LocalQueue. Only the others get Jobs while it does not answer.
func TestNamespacesThatKueueExcludesAreServedDuringItsOutage(t *testing.T) {
	skip.UnderShort(t, "the suite fairness tests webhooks that hang")
	for name, outage := range map[string]struct{ begin, end func() error }{
		"it is down": {kueue.Kill, func() error { return kueue.Start(t.Context()) }},
		"it hangs":   {kueue.Pause, kueue.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			admitted, unlabelled, excluded := newStage(t), newStage(t), newStage(t)
			admitted.quota(quotaOf)
			excluded.exclude()
			admitted.create()
			unlabelled.create(labelled(nil))
			excluded.create(labelled(nil))
			affected := []*stage{admitted, unlabelled}

			admitted.Expect(outage.begin()).To(Succeed())
			for _, s := range append(affected, excluded) {
				s.Push(2)
			}
			excluded.expectWorking(2)
			for _, s := range affected {
				s.expectCreatesFail()
			}
			excluded.finishAll()
			excluded.expectDone(2)

			admitted.Expect(outage.end()).To(Succeed())
			for _, s := range affected {
				s.finishAll()
				s.expectDone(2)
			}
		})
	}
}

// exclude has Kueue leave the namespace alone.
func (s *stage) exclude() {
	s.t.Helper()
	namespace := &corev1.Namespace{}
	s.Expect(s.API.Get(s.t.Context(), client.ObjectKey{Name: s.Namespace}, namespace)).To(Succeed())
	before := namespace.DeepCopy()
	namespace.Labels[kueuekit.Excluded] = ""
	s.Expect(s.API.Patch(s.t.Context(), namespace, client.MergeFrom(before))).To(Succeed())
}
