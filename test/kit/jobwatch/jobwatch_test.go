// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobwatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

const owner types.UID = "owner"

// newWatch makes one that watches nothing: tests note events themselves.
func newWatch(limit int) *Watch {
	return &Watch{
		owner: owner, limit: func() int { return limit },
		created: map[types.UID]bool{}, unfinished: map[types.UID]string{}, running: map[types.UID]bool{},
		markers: map[string]bool{}, changed: make(chan struct{}),
	}
}

// job makes a Job that the owner controls, with these conditions.
func job(name string, conditions ...batchv1.JobConditionType) *batchv1.Job {
	controls := true
	made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &controls}},
	}}
	for _, condition := range conditions {
		made.Status.Conditions = append(made.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	return made
}

func TestJobsBeyondTheLimitAreBlamed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := newWatch(2)
	for _, name := range []string{"a", "b"} {
		w.note(watch.Added, job(name))
		w.note(watch.Modified, job(name))
	}
	g.Expect(w.Violation()).To(BeEmpty())
	w.note(watch.Added, job("c"))
	g.Expect(w.Violation()).To(Equal("Job c makes 3 unfinished ones, where 2 were due"))
	w.note(watch.Deleted, job("c"))
	g.Expect(w.Violation()).NotTo(BeEmpty(), "what has happened stays so")
}

func TestJobsThatEndMakeRoom(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := newWatch(1)
	for name, end := range map[string]struct {
		kind watch.EventType
		job  *batchv1.Job
	}{
		"complete": {watch.Modified, job("complete", batchv1.JobComplete)},
		"failed":   {watch.Modified, job("failed", batchv1.JobFailed)},
		"deleted":  {watch.Deleted, job("deleted")},
		"released": {watch.Modified, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "released"}}},
	} {
		w.note(watch.Added, job(name))
		g.Expect(w.Unfinished()).To(ConsistOf(name))
		w.note(end.kind, end.job)
		g.Expect(w.Unfinished()).To(BeEmpty(), name)
	}
	g.Expect(w.Violation()).To(BeEmpty())
	g.Expect(w.Created()).To(Equal(4))
}

func TestSuspendedJobsDoNotRun(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := newWatch(3)
	suspend := func(name string, suspended bool) *batchv1.Job {
		made := job(name)
		made.Spec.Suspend = &suspended
		return made
	}
	w.note(watch.Added, suspend("a", true))
	g.Expect(w.MostRunning()).To(BeZero())
	w.note(watch.Modified, suspend("a", false))
	w.note(watch.Modified, suspend("a", true))
	w.note(watch.Added, job("b"))
	g.Expect(w.MostRunning()).To(Equal(1), "never at the same time")
	w.note(watch.Modified, suspend("a", false))
	w.note(watch.Modified, job("a", batchv1.JobComplete))
	w.note(watch.Deleted, job("b"))
	w.note(watch.Added, job("c"))
	g.Expect(w.MostRunning()).To(Equal(2))
}

func TestJobsOfOthersDoNotCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := newWatch(0)
	w.note(watch.Added, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "other"}})
	g.Expect(w.Created()).To(BeZero())
	g.Expect(w.Violation()).To(BeEmpty())
}

func TestJobsAreNamedInTheirOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := newWatch(2)
	for _, name := range []string{"b", "a"} {
		w.note(watch.Added, job(name))
		w.note(watch.Modified, job(name))
	}
	g.Expect(w.Job(t.Context(), 1)).To(Equal("b"))
	g.Expect(w.Job(t.Context(), 2)).To(Equal("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Job(ctx, 3)
	g.Expect(err).To(MatchError(context.Canceled))
}

func TestAwaitCreated(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		w := newWatch(2)
		awaited := make(chan error, 1)
		go func() { awaited <- w.AwaitCreated(t.Context(), 2) }()
		for _, name := range []string{"a", "b"} {
			synctest.Wait()
			g.Expect(awaited).To(BeEmpty())
			w.note(watch.Added, job(name))
		}
		g.Expect(<-awaited).To(Succeed())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(w.AwaitCreated(ctx, 3)).To(MatchError(And(ContainSubstring("2"), ContainSubstring("3"))))
	})
}
