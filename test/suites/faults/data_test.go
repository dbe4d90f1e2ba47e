// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

func TestPromiseIsKeptForOneQueue(t *testing.T) {
	t.Parallel()
	name := func(fault QueueFault) string { return fault.Name }
	for _, fault := range scene.RowsNamed(QueueFaults(), name, "FLUSHALL", "expiry", `notify-keyspace-events ""`, trackedMeanwhile) {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			fixture := newEmptyFixture(t)
			struck := add(t, fixture, "struck")
			NewWithT(t).Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
			row, err := fixture.Play(t.Context(), fault.Of(struck), lasting(fault.Fault))
			conclude(t, fixture, row, err, fault.Within)
		})
	}
}

// The negative control of all that counts Jobs: one more does not pass.
func TestOneJobTooManyIsSeen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "growing")
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(queue.createJob(t.Context(), "one-more")).To(Succeed())
	over, err := fixture.Prove(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("unfinished ones")))
	g.Expect(over).To(Equal(1))
}

// createJob creates a Job of the ScaledJob in the operator's stead.
func (q *Queue) createJob(ctx context.Context, name string) error {
	return q.API.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: q.Object.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(q.Object, scaledjobv1.GroupVersion.WithKind("ScaledJob")),
			},
		},
		Spec: q.Object.Spec.JobTemplate.Spec,
	})
}
