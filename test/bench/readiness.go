// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// readiness is what a watch has told of the ScaledJobs of the fleet until a version. None of them is forgotten when it
// was seen to be Ready, or to hear of messages at once.
type readiness struct {
	of             *fleet
	version        string
	ready, hearing map[string]bool
}

// newReadiness knows nothing yet. What happens from now on is going to be seen.
func (f *fleet) newReadiness(ctx context.Context) (*readiness, error) {
	var list scaledjobv1.ScaledJobList
	if err := f.owner.kube.List(ctx, &list, client.InNamespace(fleetNamespace), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("listing ScaledJobs: %w", err)
	}
	return &readiness{of: f, version: list.ResourceVersion, ready: map[string]bool{}, hearing: map[string]bool{}}, nil
}

// all waits until all members are among those that have been seen so.
func (r *readiness) all(ctx context.Context, waiting string, so map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	if len(so) == len(r.of.members) {
		return nil
	}
	_, err := watchtools.Until(ctx, r.version, &cache.ListWatch{WatchFuncWithContext: r.watch}, func(event watch.Event) (bool, error) {
		sj, ok := event.Object.(*scaledjobv1.ScaledJob)
		if !ok {
			return false, fmt.Errorf("watching the ScaledJobs: %v", event.Object)
		}
		r.note(sj)
		r.of.shown.Status("%s, %d of %d", waiting, len(so), len(r.of.members))
		return len(so) == len(r.of.members), nil
	})
	if err != nil {
		return fmt.Errorf("%s, %d of %d: %w", waiting, len(so), len(r.of.members), err)
	}
	return nil
}

func (r *readiness) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.of.owner.kube.Watch(ctx, &scaledjobv1.ScaledJobList{}, client.InNamespace(fleetNamespace), &client.ListOptions{Raw: &opts})
}

func (r *readiness) note(sj *scaledjobv1.ScaledJob) {
	r.version = sj.ResourceVersion
	if apimeta.IsStatusConditionTrue(sj.Status.Conditions, scaledjobv1.ConditionReady) {
		r.ready[sj.Name] = true
	}
	if heard(sj.Status) {
		r.hearing[sj.Name] = true
	}
}
