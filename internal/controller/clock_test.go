// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/internal/scaling"
)

// The clocks of the Job controller and of the previous leader may be off by hours. That must cause neither surplus Jobs
// nor a pause longer than LongestPause.
func TestClocksOfOthers(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-100 * 365 * 24 * time.Hour, -5 * time.Hour, 0, 5 * time.Hour, 100 * 365 * 24 * time.Hour} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, restarted: %t", skew, restarted), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newFakeEnv(t, scaledJob())
					w.queues.SetDepth(emailQueue, 30)
					w.reconcile(t.Context())
					w.failAll(t, skew)
					w.reconcile(t.Context())
					if restarted {
						w.skewStatus(t, skew)
						w.forgetAll()
					}

					for _, wait := range []time.Duration{0, time.Second, scaling.LongestPause} {
						time.Sleep(wait)
						w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", scaling.LongestPause))
						w.Expect(w.unfinished(t)).To(BeNumerically("<=", 3))
					}
					w.Expect(w.unfinished(t)).To(Equal(1), "a probe, minutes later")
				})
			})
		}
	}
}

// failAll makes all Jobs fail, with finish times that are off by skew.
func (w *fakeEnv) failAll(t *testing.T, skew time.Duration) {
	t.Helper()
	for _, job := range w.jobs(t.Context()) {
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(skew).Truncate(time.Second)),
		}}
		w.Expect(w.api.Status().Update(t.Context(), &job)).To(Succeed())
	}
}

// skewStatus shifts the times of the status by skew.
func (w *fakeEnv) skewStatus(t *testing.T, skew time.Duration) {
	t.Helper()
	sj := w.scaledJob(t.Context())
	for i := range sj.Status.Conditions {
		moved := &sj.Status.Conditions[i].LastTransitionTime
		*moved = metav1.NewTime(moved.Add(skew))
	}
	w.Expect(w.api.Status().Update(t.Context(), sj)).To(Succeed())
}

// unfinished returns the number of unfinished Jobs.
func (w *fakeEnv) unfinished(t *testing.T) int {
	t.Helper()
	count := 0
	for _, job := range w.jobs(t.Context()) {
		if unfinished(&job) {
			count++
		}
	}
	return count
}
