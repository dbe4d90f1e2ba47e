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

// arrivals notes when the Jobs of a namespace are seen for the first time, on a watch that belongs to neither contender.
type arrivals struct {
	kube      client.WithWatch
	namespace string

	mu sync.Mutex
	// times are those of the Jobs since the last reset, and present is how many Jobs there are.
	times   []time.Time
	present int
	// err is why nothing more will be seen.
	err error
	// changed holds a token while a waiter may find something new.
	changed chan struct{}
}

// newArrivals starts to watch a namespace that has no Jobs yet. It does so until ctx ends.
func newArrivals(ctx context.Context, kube client.WithWatch, namespace string) (*arrivals, error) {
	a := &arrivals{kube: kube, namespace: namespace, changed: make(chan struct{}, 1)}
	stream, err := a.watchFrom(ctx, "")
	if err != nil {
		return nil, err
	}
	go a.follow(ctx, stream)
	return a, nil
}

func (a *arrivals) watchFrom(ctx context.Context, version string) (watch.Interface, error) {
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
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

// drain notes all there is to a watch, and returns the resource version that it got to.
func (a *arrivals) drain(stream watch.Interface, version string) (string, error) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		job, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return version, fmt.Errorf("watching the Jobs in %s: %w", a.namespace, apierrors.FromObject(event.Object))
		}
		version = job.ResourceVersion
		a.note(event.Type, time.Now())
	}
	return version, nil
}

func (a *arrivals) note(kind watch.EventType, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch kind {
	case watch.Added:
		a.times = append(a.times, at)
		a.present++
	case watch.Deleted:
		a.present--
	}
	a.notify()
}

func (a *arrivals) notify() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// nth waits for the n-th Job since the last reset, counted from 1, and returns when it was seen.
func (a *arrivals) nth(ctx context.Context, n int) (time.Time, error) {
	err := a.wait(ctx, func() bool { return len(a.times) >= n })
	if err != nil {
		return time.Time{}, fmt.Errorf("waiting for Job %d: %w", n, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.times[n-1], nil
}

// reset waits until all Jobs are gone, and counts from 1 again.
func (a *arrivals) reset(ctx context.Context) error {
	if err := a.wait(ctx, func() bool { return a.present == 0 }); err != nil {
		return fmt.Errorf("waiting for Jobs to be gone: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = nil
	return nil
}

// wait waits until the condition, which is asked with the lock held, is met.
func (a *arrivals) wait(ctx context.Context, met func() bool) error {
	for {
		a.mu.Lock()
		done, err := met(), a.err
		a.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
