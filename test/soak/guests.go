// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// guestMessages is how many messages a guest has.
const guestMessages = 3

// haveGuests has one ScaledJob after the other come to the server and go, until
// ctx ends. Whatever the operator keeps of them adds up.
func (s *soak) haveGuests(ctx context.Context, on *server) error {
	for ctx.Err() == nil {
		name := fmt.Sprintf("guest-%d", s.guests.Add(1))
		// A guest that has come goes, too.
		if err := s.haveGuest(context.WithoutCancel(ctx), on, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *soak) haveGuest(ctx context.Context, on *server, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q, err := s.newQueueOn(ctx, on, name, guestMessages)
	if err != nil {
		return err
	}
	q.push(ctx, guestMessages)
	if err := sjtest.Pause(ctx, s.pace.stay); err != nil {
		return err
	}
	return errors.Join(q.check(), q.remove(ctx))
}

// remove deletes the ScaledJob and its Jobs, for which there is no garbage
// collector here. The order keeps the operator from making new Jobs.
func (q *queue) remove(ctx context.Context) error {
	q.api.away.RLock()
	defer q.api.away.RUnlock()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := q.Delete(ctx); err != nil {
		return err
	}
	err := q.api.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(q.Namespace), background,
		client.MatchingLabels{scaledjobv1.LabelScaledJob: q.Name})
	if err != nil {
		return fmt.Errorf("deleting the Jobs of %s: %w", q.Name, err)
	}
	return nil
}
