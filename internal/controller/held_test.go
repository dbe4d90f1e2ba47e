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

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// running returns the number of Jobs that have not finished.
func (w *fakeEnv) running(ctx context.Context) (running int) {
	for _, job := range w.jobs(ctx) {
		if !jobs.Finished(&job) {
			running++
		}
	}
	return running
}

// A create is held up on its way, gets no answer, and is sent again. It must not create a Job above maxReplicas when it
// lands, whatever has become of the Job of this name by then.
func TestAHeldCreateThatLandsLateCreatesNoJobTooMany(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused bool // the first time that it is sent again
		deleted bool // by somebody else, as soon as the Job has finished
	}{
		"pruned":                     {},
		"refused in between":         {refused: true},
		"deleted by somebody else":   {deleted: true},
		"deleted, and refused first": {deleted: true, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sj := scaledJob()
				sj.Spec.MaxReplicas, sj.Spec.SuccessfulJobsHistoryLimit = new(int32(1)), new(int32(0))
				w := newFakeEnv(t, sj)
				w.queues.SetDepth(emailQueue, 1000)
				var land func() error
				w.onCreate = func(ctx context.Context, _ *batchv1.Job, send func() error) error {
					land = send
					<-ctx.Done()
					return ctx.Err()
				}
				_ = w.reconcileFails(t.Context())
				if c.refused {
					w.onCreate = refuse(errOverload)
					_ = w.reconcileFails(t.Context())
				}
				w.onCreate = send
				w.reconcile(t.Context())
				for _, job := range w.jobs(t.Context()) {
					w.finish(t.Context(), job.Name, batchv1.JobComplete)
					if c.deleted {
						w.delete(t.Context(), job.Name)
					}
				}
				w.reconcile(t.Context())
				w.Expect(w.running(t.Context())).To(Equal(1))

				_ = land()

				w.Expect(w.running(t.Context())).To(Equal(1))

				time.Sleep(2 * time.Minute)
				w.reconcile(t.Context())
				w.reconcile(t.Context())
				w.Expect(w.inDoubt(t.Context())).To(BeEmpty(), "after that time nothing is in doubt")
				w.Expect(w.jobs(t.Context())).To(HaveLen(1), "and the finished Jobs are pruned")
			})
		})
	}
}
