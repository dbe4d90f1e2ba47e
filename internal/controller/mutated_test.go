// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
)

// An admission webhook may change what is created. A Job without our owner reference is not counted, so that creating on and on would fill the
// cluster: the answer of the API server shows that it is not ours.
func TestJobsThatLoseTheirOwnerAreNotCreatedWithoutEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 30)
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		job.OwnerReferences = nil
		return send()
	}
	for range 10 {
		_, _ = w.r.Reconcile(t.Context(), requestOf(emails))
	}
	w.Expect(len(w.jobs(t.Context()))).To(BeNumerically("<=", 3), "Jobs for the 3 that are due")
}
