// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestJobIsCountedOnceAndAtItsFirstSighting(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record := newJobRecord()
	first, later := time.Unix(1, 0), time.Unix(2, 0)
	record.note(job("a"), first)
	record.note(job("a"), later)
	record.note(job("b"), later)
	g.Expect(record.sightings(0)).To(Equal([]time.Time{first, later}))
	g.Expect(record.sightings(1)).To(Equal([]time.Time{later}))
}

func TestPeakIsOfJobsActiveAtTheSameTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record := newJobRecord()
	record.note(job("a"), time.Time{})
	record.note(job("b"), time.Time{})
	record.note(job("a", batchv1.JobComplete), time.Time{})
	record.note(job("b", batchv1.JobFailed), time.Time{})
	record.note(job("c"), time.Time{})
	g.Expect(record.peakActive()).To(Equal(2))
}

func TestAwaitReturnsWhenTheJobsAreThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record := newJobRecord()
	returned := make(chan error)
	go func() { returned <- record.awaitSeen(t.Context(), 2) }()
	record.note(job("a"), time.Time{})
	g.Consistently(returned).ShouldNot(Receive())
	record.note(job("b"), time.Time{})
	g.Eventually(returned).WithTimeout(30 * time.Second).Should(Receive(BeNil()))

	go func() { returned <- record.awaitFinished(t.Context()) }()
	record.note(job("a", batchv1.JobComplete), time.Time{})
	g.Consistently(returned).ShouldNot(Receive())
	record.note(job("b", batchv1.JobComplete), time.Time{})
	g.Eventually(returned).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}

func TestAwaitEndsWithTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	NewWithT(t).Expect(newJobRecord().awaitSeen(ctx, 1)).To(MatchError(cause))
}

// job returns a Job for which a condition is true.
func job(uid types.UID, conditions ...batchv1.JobConditionType) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	return job
}
