// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/retry"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// withoutHistory is a ScaledJob of which no succeeded Job is kept.
func withoutHistory() *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
	return sj
}

// Pruning does not need Redis: finished Jobs must not accumulate during an outage.
func TestPruneWithoutRedis(t *testing.T) {
	t.Parallel()
	sj := withoutHistory()
	done := jobs.Build(sj, "template", 1, 0)
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	w := newFakeEnv(t, sj, done)
	w.queues.SetError(emailQueue, unreachable)

	w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(BeEmpty())
}

// An admission policy may always refuse the deletion of a Job.
func TestPruningThatIsRefusedDoesNotHoldUpCreating(t *testing.T) {
	inBubble(t, withoutHistory(), func(ctx context.Context, w *fakeEnv) {
		w.warmUp(ctx)
		w.finishAt(ctx, w.names()[0], batchv1.JobComplete, time.Now().Add(-historyDelay))
		refused := 0
		w.r.Client = interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				refused++
				return errForbidden
			},
		})

		w.Expect(w.reconcileAt(ctx, 25).RequeueAfter).To(BeNumerically("<=", retry.APIServer.After(1)))
		w.reconcileAt(ctx, 45)

		w.Expect(w.names()).To(HaveLen(1 + 5))
		w.Expect(refused).To(Equal(1), "the delete is retried later")
		w.Expect(w.scrape()).To(HaveKeyWithValue("scaledjob_reconcile_errors_total", 1.0))
	})
}

// Messages wait for creates, and nobody waits for the end of a finished Job.
func TestFinishedJobsAreLeftWhileJobsAreCreated(t *testing.T) {
	inBubble(t, withoutHistory(), func(ctx context.Context, w *fakeEnv) {
		w.warmUp(ctx)
		w.finish(ctx, w.names()[0], batchv1.JobComplete)

		w.Expect(w.reconcileAt(ctx, 25).RequeueAfter).To(BeNumerically("<=", historyDelay))
		w.Expect(w.jobs(ctx)).To(HaveLen(1 + 3))
		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(3), "nothing is created")
	})
}

func TestWhichFinishedJobsPress(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		jobs    int
		age     time.Duration
		pressed bool
	}{
		"few":               {historyBatch - 1, historyDelay - time.Second, false},
		"many":              {historyBatch, 0, true},
		"one from before":   {1, historyDelay, true},
		"a clock that errs": {1, -time.Minute, false},
	} {
		finished := make([]*batchv1.Job, c.jobs)
		for i := range finished {
			finished[i] = &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
				Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-c.age)),
			}}}}
		}
		NewWithT(t).Expect(pressing(finished, now)).To(Equal(c.pressed), name)
	}
}

// Values stored under an older CRD may be below the current minimum.
func TestNegativeHistoryLimitsOfAnOlderCRDCauseNoPanic(t *testing.T) {
	bubble.Each(t, map[string]func(*scaledjobv1.ScaledJobSpec){
		"succeeded": func(spec *scaledjobv1.ScaledJobSpec) { spec.SuccessfulJobsHistoryLimit = new(int32(-1)) },
		"failed":    func(spec *scaledjobv1.ScaledJobSpec) { spec.FailedJobsHistoryLimit = new(int32(-1)) },
	}, func(t *testing.T, _ Gomega, set func(*scaledjobv1.ScaledJobSpec)) {
		sj := scaledJob()
		set(&sj.Spec)
		w := newFakeEnv(t, sj)
		defer func() { w.Expect(recover()).To(BeNil()) }()
		w.reconcile(t.Context())
	})
}
