// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// AccurateScaler creates Jobs by the formula of the strategy that KEDA calls accurate: one for each message that waits,
// less the Jobs that are pending. It takes a Job whose Pod is ready for one that has taken its message, which is too
// early. Nothing else is wrong with it here: it counts what the API server says at the moment. It scales one ScaledJob,
// of which a Job is for one message.
type AccurateScaler struct {
	API    client.Client
	Object *scaledjobv1.ScaledJob
	// Waiting reads how many messages nobody has taken.
	Waiting func(context.Context) (int64, error)
	// Interval is how long after a look comes the next, and after the start the first.
	Interval time.Duration
}

// Run looks and creates until ctx ends, or something goes wrong. What it has begun by then it carries out.
func (s *AccurateScaler) Run(ctx context.Context) error {
	for scene.Pause(ctx, s.Interval) == nil {
		if err := s.scale(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (s *AccurateScaler) scale(ctx context.Context) error {
	waiting, err := s.Waiting(ctx)
	if err != nil {
		return err
	}
	active, pending, err := s.count(ctx)
	if err != nil {
		return err
	}
	for range min(waiting-pending, int64(s.Object.Spec.MaxReplicasOrDefault())-active) {
		if err := s.create(ctx); err != nil {
			return err
		}
	}
	return nil
}

// count returns how many Jobs have not finished, and how many of these have no ready Pod.
func (s *AccurateScaler) count(ctx context.Context) (active, pending int64, err error) {
	var list batchv1.JobList
	if err := s.API.List(ctx, &list, client.InNamespace(s.Object.Namespace)); err != nil {
		return 0, 0, fmt.Errorf("counting Jobs: %w", err)
	}
	all := make([]*batchv1.Job, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	owned := jobs.Classify(all, s.Object.UID)
	return int64(len(owned.Active)), int64(owned.Pending()), nil
}

func (s *AccurateScaler) create(ctx context.Context) error {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: s.Object.Name + "-", Namespace: s.Object.Namespace},
		Spec:       s.Object.Spec.JobTemplate.Spec,
	}
	if err := ctrl.SetControllerReference(s.Object, job, s.API.Scheme()); err != nil {
		return err
	}
	if err := s.API.Create(ctx, job); err != nil {
		return fmt.Errorf("creating a Job: %w", err)
	}
	return nil
}
