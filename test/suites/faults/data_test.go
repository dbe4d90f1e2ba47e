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
)

func TestPromiseIsKeptForOneQueue(t *testing.T) {
	t.Parallel()
	for _, fault := range QueueFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			scene := newEmptyScene(t)
			struck := add(t, scene, "struck")
			NewWithT(t).Expect(scene.AwaitSubscriptions(t.Context())).To(Succeed())
			row, err := scene.Play(t.Context(), fault.Of(struck), lasting(fault.Fault))
			conclude(t, scene, row, err, fault.Within)
		})
	}
}

// The negative control of all that counts Jobs: one more does not pass.
func TestOneJobTooManyIsSeen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	scene := newEmptyScene(t)
	queue := add(t, scene, "growing")
	g.Expect(scene.Push(t.Context())).To(Succeed())
	g.Expect(scene.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(queue.createJob(t.Context(), "one-more")).To(Succeed())
	over, err := scene.Prove(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("unfinished ones")))
	g.Expect(over).To(Equal(1))
}

// createJob creates a Job of the ScaledJob in the operator's stead.
func (q *Queue) createJob(ctx context.Context, name string) error {
	return q.setting.API.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: q.Object.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(q.Object, scaledjobv1.GroupVersion.WithKind("ScaledJob")),
			},
		},
		Spec: q.Object.Spec.JobTemplate.Spec,
	})
}
