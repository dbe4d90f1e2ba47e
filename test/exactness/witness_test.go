// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// witness sees every change of the Jobs of one ScaledJob, in the order in which
// the API server made them and undelayed. It looks at controllers alone, and
// shares nothing with what it watches over.
type witness struct {
	owner types.UID
	limit func() int

	mu sync.Mutex
	// created are all Jobs that ever were, unfinished those left.
	created    map[types.UID]bool
	unfinished map[types.UID]string
	// fault is the first thing that must not happen, empty if nothing did.
	fault string
	// markers are the names of those that were seen.
	markers map[string]bool
}

// summon starts a witness, which stays until the test ends. The limit is how
// many Jobs may be unfinished at the moment.
func summon(t *testing.T, owner *scaledjobv1.ScaledJob, limit func() int) *witness {
	t.Helper()
	g := NewWithT(t)
	clients, err := kubernetes.NewForConfig(control.Config())
	g.Expect(err).NotTo(HaveOccurred())
	watched := clients.BatchV1().Jobs(owner.Namespace)
	present, err := watched.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	events, err := watchtools.NewRetryWatcherWithContext(t.Context(), present.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: watched.Watch,
	})
	g.Expect(err).NotTo(HaveOccurred())

	w := &witness{
		owner: owner.UID, limit: limit,
		created: map[types.UID]bool{}, unfinished: map[types.UID]string{}, markers: map[string]bool{},
	}
	go w.look(t.Context(), events)
	return w
}

func (w *witness) look(ctx context.Context, events *watchtools.RetryWatcher) {
	for event := range events.ResultChan() {
		w.note(event)
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blame("the witness went blind: its watch ended")
	}
}

func (w *witness) note(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
func (w *witness) blame(fault string) {
	if w.fault == "" {
		w.fault = fault
	}
}

// seen is how many Jobs were ever created.
func (w *witness) seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.created)
}

// left are the names of the Jobs that have not finished.
func (w *witness) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Values(w.unfinished))
}

// verdict is what must not have happened and did, or empty.
func (w *witness) verdict() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

func (w *witness) hasSeen(marker string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.markers[marker]
}

// markerPrefix begins the names of Jobs that belong to no one.
const markerPrefix = "marker-"

// catchUp returns when the witness has seen all that happened before the call.
func (w *witness) catchUp(t *testing.T, namespace string) {
	t.Helper()
	g := NewWithT(t)
	marker := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: markerPrefix},
		Spec:       jobTemplate().Spec,
	}
	g.Expect(api.Create(t.Context(), marker)).To(Succeed())
	g.Eventually(w.hasSeen).WithArguments(marker.Name).WithTimeout(timeout).Should(BeTrue())
}
