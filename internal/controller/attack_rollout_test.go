// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// No edit but that of the template touches a Job: who wants the next edit to replace Jobs does not ask for those of earlier ones to go.
func TestAnEditOfTheRolloutAloneReplacesNothing(t *testing.T) {
	t.Parallel()
	sj := replacing()
	sj.Spec.Rollout.Strategy = scaledjobv1.RolloutGradual
	w := newWorld(t, sj)
	w.queues.SetDepth(emailQueue, 30)
	w.reconcile(t.Context())
	w.edit(t.Context(), anotherImage)
	w.reconcile(t.Context())
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))

	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Rollout.Strategy = scaledjobv1.RolloutImmediate })
	for range 3 {
		w.reconcile(t.Context())
	}
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))
}

// A default that the CRD gains is nobody's correction of the workers.
func TestPausesOutlastADefaultThatTheCRDGains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 30)
		w.reconcile(t.Context())
		w.finishActive(t.Context(), batchv1.JobFailed)
		w.reconcile(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("JobsFailing"))

		w.reread(t.Context(), anotherImage)
		w.reconcile(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("JobsFailing"))
		w.Expect(w.names()).To(HaveLen(3))
	})
}
