// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package witness counts the Jobs of a ScaledJob by a watch of its own, which
// nothing delays, and which shares nothing with what it watches over.
package witness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedbatchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	catchUpTimeout = 3 * time.Minute
	// markerPrefix begins the names of Jobs that belong to no one.
	markerPrefix = "marker-"
)

// Witness sees every change of the Jobs that one ScaledJob controls, in the order
// in which the API server made them. Only a Job that comes and goes while the API
// server is restarted escapes it. It is safe for concurrent use.
type Witness struct {
	owner types.UID
	limit func() int
	jobs  typedbatchv1.JobInterface

	mu sync.Mutex
	// created are all Jobs that ever were, unfinished those left.
	created    map[types.UID]bool
	unfinished map[types.UID]string
	// fault is the first thing that must not happen, empty if nothing did.
	fault string
	// markers are the names of those that were seen.
	markers map[string]bool
	// changed is closed when anything was seen, and replaced.
	changed chan struct{}
}

// Summon starts a witness of the Jobs of a ScaledJob that has none yet. It stays
// until ctx ends. The limit is how many Jobs may be unfinished at the moment; it
// is called at each change and must not block.
func Summon(ctx context.Context, config *rest.Config, owner *scaledjobv1.ScaledJob, limit func() int) (*Witness, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("summoning a witness: %w", err)
	}
	w := &Witness{
		owner: owner.UID, limit: limit, jobs: clients.BatchV1().Jobs(owner.Namespace),
		created: map[types.UID]bool{}, unfinished: map[types.UID]string{}, markers: map[string]bool{},
		changed: make(chan struct{}),
	}
	events, err := w.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("summoning a witness: %w", err)
	}
	go w.look(ctx, events)
	return w, nil
}

// begin lists what is there, and watches from then on.
func (w *Witness) begin(ctx context.Context) (*watchtools.RetryWatcher, error) {
	present, err := w.jobs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w.compare(present.Items)
	return watchtools.NewRetryWatcherWithContext(ctx, present.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: w.jobs.Watch,
	})
}

// New is Summon for a test, at whose end the witness goes.
func New(tb testing.TB, config *rest.Config, owner *scaledjobv1.ScaledJob, limit func() int) *Witness {
	tb.Helper()
	w, err := Summon(tb.Context(), config, owner, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func (w *Witness) look(ctx context.Context, events *watchtools.RetryWatcher) {
	var err error
	for err == nil && w.noteAll(events) {
		events, err = w.begin(ctx)
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blame(fmt.Sprintf("the witness went blind: its watch ended: %v", err))
	}
}

// noteAll notes what is seen until the watch ends, and says whether it has expired.
func (w *Witness) noteAll(events *watchtools.RetryWatcher) (expired bool) {
	for event := range events.ResultChan() {
		if event.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			return true
		}
		w.note(event)
	}
	return false
}

// compare notes what is there. Those that are not have gone unseen.
func (w *Witness) compare(present []batchv1.Job) {
	there := map[types.UID]bool{}
	for i := range present {
		there[present[i].UID] = true
		w.note(watch.Event{Type: watch.Added, Object: &present[i]})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.unfinished, func(uid types.UID, _ string) bool { return !there[uid] })
}

func (w *Witness) note(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	job, isJob := event.Object.(*batchv1.Job)
	if !isJob {
		w.blame(fmt.Sprintf("the witness went blind: %v", event.Object))
		return
	}
	if job.GenerateName == markerPrefix {
		w.markers[job.Name] = true
	}
	if owner := metav1.GetControllerOf(job); owner == nil || owner.UID != w.owner {
		delete(w.unfinished, job.UID) // if it was the owner's, it was released
		return
	}
	w.created[job.UID] = true
	if event.Type == watch.Deleted || finished(job) {
		delete(w.unfinished, job.UID)
		return
	}
	w.unfinished[job.UID] = job.Name
	if limit := w.limit(); len(w.unfinished) > limit {
		w.blame(fmt.Sprintf("Job %s makes %d unfinished ones, where %d were due", job.Name, len(w.unfinished), limit))
	}
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// blame keeps the first fault.
func (w *Witness) blame(fault string) {
	if w.fault == "" {
		w.fault = fault
	}
}

// Created returns how many Jobs were ever created.
func (w *Witness) Created() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.created)
}

// Unfinished returns the names of the Jobs that have not finished.
func (w *Witness) Unfinished() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Values(w.unfinished))
}

// Verdict returns the first thing that must not have happened and did, or "".
func (w *Witness) Verdict() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// AwaitCreated returns nil once so many Jobs were created, and otherwise when ctx
// ends.
func (w *Witness) AwaitCreated(ctx context.Context, jobs int) error {
	err := w.await(ctx, func() bool { return len(w.created) >= jobs })
	if err != nil {
		return fmt.Errorf("waiting for %d Jobs, of which there are %d: %w", jobs, w.Created(), err)
	}
	return nil
}

// CatchUp returns nil once the witness has seen all that happened before the
// call. For that it makes a Job which belongs to no one and never runs. It gives
// up after three minutes.
func (w *Witness) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	marker, err := w.jobs.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: markerPrefix},
		Spec:       IdleJob().Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("marking the present moment: %w", err)
	}
	if err := w.await(ctx, func() bool { return w.markers[marker.Name] }); err != nil {
		return fmt.Errorf("waiting until the witness has seen Job %s: %w", marker.Name, err)
	}
	return nil
}

// await returns nil once the condition holds, which is asked with the lock held.
func (w *Witness) await(ctx context.Context, condition func() bool) error {
	for {
		w.mu.Lock()
		holds, changed := condition(), w.changed
		w.mu.Unlock()
		if holds {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// IdleJob returns a template of Jobs that only a test touches: Kubernetes'
// controller of Jobs leaves alone those that are managed by another.
func IdleJob() batchv1.JobTemplateSpec {
	manager := "test.batch.miracle.dev/worker"
	return batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		ManagedBy: &manager,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "worker", Image: "worker"}},
		}},
	}}
}
