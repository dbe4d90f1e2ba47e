// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// arrivals notes when the Jobs of a namespace are seen for the first time, on a watch of its own.
type arrivals struct {
	kube      client.WithWatch
	namespace string
	label     string // of a Job, which has the name of its ScaledJob

	mu sync.Mutex
	// seen are the Jobs of each ScaledJob since the last reset, in their order, and present is how many Jobs there are.
	seen    map[string][]arrival
	present int
	// err is why nothing more will be seen.
	err error
	// changed is closed when there is something new, and replaced.
	changed chan struct{}
}

// arrival is a Job, and when it was seen for the first time.
type arrival struct {
	job string
	at  time.Time
}

// newArrivals starts to watch a namespace that has no Jobs yet. It does so until ctx ends.
func newArrivals(ctx context.Context, kube client.WithWatch, namespace, label string) (*arrivals, error) {
	a := &arrivals{kube: kube, namespace: namespace, label: label, seen: map[string][]arrival{}, changed: make(chan struct{})}
	stream, err := a.watchFrom(ctx, "")
	if err != nil {
		return nil, err
	}
	go a.follow(ctx, stream)
	return a, nil
}

func (a *arrivals) watchFrom(ctx context.Context, version string) (watch.Interface, error) {
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}}
	stream, err := a.kube.Watch(ctx, jobList(), client.InNamespace(a.namespace), from)
	if err != nil {
		return nil, fmt.Errorf("watching the Jobs in %s: %w", a.namespace, err)
	}
	return stream, nil
}

// jobList is an empty list for the metadata of Jobs.
func jobList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	return list
}

// follow goes on where it was if the API server ends the watch, as it does with a watcher that cannot keep up.
func (a *arrivals) follow(ctx context.Context, stream watch.Interface) {
	version, err := "", error(nil)
	for err == nil {
		if version, err = a.drain(stream, version); err == nil {
			stream, err = a.watchFrom(ctx, version)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	a.notify()
}

// drain notes all there is to a watch, and returns the resource version that it got to. A bookmark keeps that recent in
// a namespace where nothing happens for long.
func (a *arrivals) drain(stream watch.Interface, version string) (string, error) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		job, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return version, fmt.Errorf("watching the Jobs in %s: %w", a.namespace, apierrors.FromObject(event.Object))
		}
		version = job.ResourceVersion
		if event.Type != watch.Bookmark {
			a.note(event.Type, job, time.Now())
		}
	}
	return version, nil
}

func (a *arrivals) note(kind watch.EventType, job *metav1.PartialObjectMetadata, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch kind {
	case watch.Added:
		of := job.Labels[a.label]
		a.seen[of] = append(a.seen[of], arrival{job.Name, at})
		a.present++
	case watch.Deleted:
		a.present--
	default:
		return
	}
	a.notify()
}

func (a *arrivals) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// nth waits for the n-th Job of a ScaledJob since the last reset, counted from 1.
func (a *arrivals) nth(ctx context.Context, of string, n int) (arrival, error) {
	err := a.wait(ctx, func() bool { return len(a.seen[of]) >= n })
	if err != nil {
		return arrival{}, fmt.Errorf("waiting for Job %d of %s, which has %d: %w", n, of, a.count(of), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[of][n-1], nil
}

// count is how many Jobs of a ScaledJob were seen since the last reset.
func (a *arrivals) count(of string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen[of])
}

// reset waits until all Jobs are gone, and counts from 1 again.
func (a *arrivals) reset(ctx context.Context) error {
	if err := a.wait(ctx, func() bool { return a.present == 0 }); err != nil {
		return fmt.Errorf("waiting for Jobs to be gone: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.seen)
	return nil
}

// wait waits until the condition, which is asked with the lock held, is met.
func (a *arrivals) wait(ctx context.Context, met func() bool) error {
	for {
		a.mu.Lock()
		done, err, changed := met(), a.err, a.changed
		a.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
