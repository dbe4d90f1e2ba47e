// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events returns the events about the ScaledJob.
func (s *ScaledJob) Events(ctx context.Context) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := s.API.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("reading the events of namespace %s: %w", s.Namespace, err)
	}
	var about []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Name == s.Name {
			about = append(about, event)
		}
	}
	return about, nil
}

// Times returns how often an event has happened.
func Times(event *eventsv1.Event) int {
	if event.Series != nil {
		return int(event.Series.Count)
	}
	return 1
}
