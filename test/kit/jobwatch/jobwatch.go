// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobwatch counts the Jobs of a ScaledJob by a watch of its own, which
// nothing delays, and which shares nothing with what it watches over.
package jobwatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	syncTimeout   = 3 * time.Minute
	retryInterval = 100 * time.Millisecond
	// markerPrefix begins the names of Jobs that belong to no one.
	markerPrefix = "marker-"
)

// Watch sees every change of the Jobs that one ScaledJob controls, in the order in which the API server made them. A
// restart of the API server costs it at most what came and went in the moment before. It is safe for concurrent use.
type Watch struct {
	owner types.UID
	limit func() int
	jobs  typedbatchv1.JobInterface

	mu sync.Mutex
	// created are all Jobs that ever were, unfinished those left, and names those of
	// all, in the order in which they were seen.
	created    map[types.UID]bool
	unfinished map[types.UID]string
	names      []string
	// running are the unfinished ones that are not suspended, and mostRunning how many there were at most.
	running     map[types.UID]bool
	mostRunning int
	// violation is the first thing that must not happen, empty if nothing did.
	violation string
	// markers are the names of the marker Jobs that the watch has shown, see Sync.
	markers map[string]bool
	// changed is closed when anything was seen, and replaced.
	changed chan struct{}
}

// Start starts a watch of the Jobs of a ScaledJob that has none yet. It stays until ctx ends. The limit is how many
// Jobs may be unfinished at the moment; it is called at each change and must not block.
func Start(ctx context.Context, config *rest.Config, owner *scaledjobv1.ScaledJob, limit func() int) (*Watch, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("starting a watch of Jobs: %w", err)
	}
	jobs := clients.BatchV1().Jobs(owner.Namespace)
	present, err := jobs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("starting a watch of Jobs: %w", err)
	}
	w := &Watch{
		owner: owner.UID, limit: limit, jobs: jobs,
		created: map[types.UID]bool{}, unfinished: map[types.UID]string{}, running: map[types.UID]bool{},
		markers: map[string]bool{}, changed: make(chan struct{}),
	}
	go w.run(ctx, present.ResourceVersion)
	return w, nil
}

// run opens one API watch after another until ctx ends. The API server may be away for a moment.
func (w *Watch) run(ctx context.Context, version string) {
	for ctx.Err() == nil {
		var err error
		version, err = w.watch(ctx, version)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			version, err = w.list(ctx, version)
		}
		if err == nil {
			continue
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
		}
	}
}

// watch records the events of one API watch and returns the last version seen.
func (w *Watch) watch(ctx context.Context, version string) (string, error) {
	events, err := w.jobs.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return version, err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		job, isJob := event.Object.(*batchv1.Job)
		if !isJob {
			return version, apierrors.FromObject(event.Object)
		}
		w.note(event.Type, job)
		version = job.ResourceVersion
	}
	return version, nil
}

// list is for an API server that no longer knows what happened after this version, because it has been
// restarted: it notes the Jobs that there are. Only what came and went in the moment before the restart stays unseen.
func (w *Watch) list(ctx context.Context, version string) (string, error) {
	present, err := w.jobs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return version, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify()
	clear(w.unfinished)
	clear(w.running)
	for i := range present.Items {
		w.register(watch.Modified, &present.Items[i])
	}
	w.judge("the last")
	return present.ResourceVersion, nil
}

func (w *Watch) note(kind watch.EventType, job *batchv1.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify()
	if w.register(kind, job) {
		w.judge(job.Name)
	}
}

// notify wakes those who wait in await.
func (w *Watch) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// register keeps what a Job is, and says whether it is an unfinished one of the owner.
func (w *Watch) register(kind watch.EventType, job *batchv1.Job) bool {
	if job.GenerateName == markerPrefix {
		w.markers[job.Name] = true
	}
	if owner := metav1.GetControllerOf(job); owner == nil || owner.UID != w.owner {
		w.remove(job.UID) // if it was the owner's, it was released
		return false
	}
	if !w.created[job.UID] {
		w.created[job.UID] = true
		w.names = append(w.names, job.Name)
	}
	if kind == watch.Deleted || finished(job) {
		w.remove(job.UID)
		return false
	}
	w.unfinished[job.UID] = job.Name
	if delete(w.running, job.UID); job.Spec.Suspend == nil || !*job.Spec.Suspend {
		w.running[job.UID] = true
		w.mostRunning = max(w.mostRunning, len(w.running))
	}
	return true
}

func (w *Watch) remove(job types.UID) {
	delete(w.unfinished, job)
	delete(w.running, job)
}

// judge keeps the first time that there were too many.
func (w *Watch) judge(last string) {
	if limit := w.limit(); len(w.unfinished) > limit && w.violation == "" {
		w.violation = fmt.Sprintf("Job %s makes %d unfinished ones, where %d were due", last, len(w.unfinished), limit)
	}
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// Created returns how many Jobs were ever created.
func (w *Watch) Created() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.created)
}

// Unfinished returns the names of the Jobs that have not finished.
func (w *Watch) Unfinished() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Values(w.unfinished))
}

// MostRunning returns how many Jobs that are not suspended were unfinished at a time, at most.
func (w *Watch) MostRunning() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mostRunning
}

// Violation returns the first thing that must not have happened and did, or "".
func (w *Watch) Violation() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violation
}

// AwaitCreated returns nil once so many Jobs were created, and otherwise when ctx ends.
func (w *Watch) AwaitCreated(ctx context.Context, jobs int) error {
	err := w.await(ctx, func() bool { return len(w.created) >= jobs })
	if err != nil {
		return fmt.Errorf("waiting for %d Jobs, of which there are %d: %w", jobs, w.Created(), err)
	}
	return nil
}

// Job returns the name of the n-th Job that was created, counted from 1, once there is one, and an error when ctx ends.
func (w *Watch) Job(ctx context.Context, n int) (name string, err error) {
	if err := w.AwaitCreated(ctx, n); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[n-1], nil
}

// Sync returns nil once the watch has shown all that happened before the call. For that it makes a Job which
// belongs to no one and never runs. It gives up after three minutes.
func (w *Watch) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	marker, err := w.jobs.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: markerPrefix},
		Spec:       IdleJob().Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("marking the present moment: %w", err)
	}
	if err := w.await(ctx, func() bool { return w.markers[marker.Name] }); err != nil {
		return fmt.Errorf("waiting until the watch shows Job %s: %w", marker.Name, err)
	}
	return nil
}

// await returns nil once the condition holds, which is asked with the lock held.
func (w *Watch) await(ctx context.Context, condition func() bool) error {
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
func IdleJob() *batchv1.JobTemplateSpec {
	manager := "test.batch.miracle.dev/worker"
	return &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		ManagedBy: &manager,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "worker", Image: "worker"}},
		}},
	}}
}

// Ready has the Pod of a Job that nobody else touches be ready, in place of the controller of Jobs.
func Ready(ctx context.Context, api client.Client, key client.ObjectKey) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	pending := job.DeepCopy()
	job.Status = readyStatus()
	if err := api.Status().Patch(ctx, job, client.MergeFrom(pending)); err != nil {
		return fmt.Errorf("telling that the Pod of Job %s is ready: %w", key, err)
	}
	return nil
}

// readyStatus is that of a Job whose Pod is ready.
func readyStatus() batchv1.JobStatus {
	ready := int32(1)
	return batchv1.JobStatus{Active: ready, Ready: &ready}
}

// Complete has a Job that nobody else touches succeed, in place of the controller
// of Jobs, whether or not its Pod was Ready.
func Complete(ctx context.Context, api client.Client, key client.ObjectKey) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	unfinished := job.DeepCopy()
	unfinished.Status = readyStatus() // The patch takes away what the status has no more.
	now := metav1.Now()
	job.Status = batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	if err := api.Status().Patch(ctx, job, client.MergeFrom(unfinished)); err != nil {
		return fmt.Errorf("completing Job %s: %w", key, err)
	}
	return nil
}
