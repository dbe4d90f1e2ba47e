// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
)

// A proxy may answer 201 without the Job in the body. The operator must not take the Job as seen.
func TestAnswerWithoutIdentityIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeEnv(t, scaledJob())
		w.queues.SetDepth(emailQueue, 30)
		w.cacheIsAt("0")
		w.hidden = func(*batchv1.Job) bool { return true }
		w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
			err := send()
			job.UID, job.ResourceVersion = "", ""
			return err
		}
		for range 10 {
			_, _ = w.r.Reconcile(t.Context(), requestOf(emails))
			time.Sleep(5 * time.Second)
		}
		w.Expect(len(w.jobs(t.Context()))).To(BeNumerically("<=", 3), "Jobs for the 3 that are due")
	})
}

// Admission policies may remove the annotations. Failing Jobs must still pause creation.
func TestJobsWithoutAnnotationsThatFailPauseCreating(t *testing.T) {
	t.Parallel()
	w := newFakeEnv(t, scaledJob())
	w.queues.SetDepth(emailQueue, 30)
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		job.Annotations = nil
		return send()
	}
	for range 10 {
		w.reconcile(t.Context())
		for _, job := range w.jobs(t.Context()) {
			w.finish(t.Context(), job.Name, batchv1.JobFailed)
		}
	}
	w.Expect(len(w.jobs(t.Context()))).To(BeNumerically("<=", 6), "Jobs, all of which fail")
}
