// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// witness sees every change of the Jobs of a namespace by a watch of its own,
// which shares nothing with the operator.
type witness struct {
	mu sync.Mutex
	// last is the last that was seen of each Job there ever was.
	last map[types.UID]*batchv1.Job
	gone map[types.UID]bool
	// most is how many were unfinished at once.
	most int
	// faults are what must not happen and did.
	faults []string
}

// summon starts a witness in an empty namespace, who stays until the test ends.
func summon(t *testing.T, namespace string) *witness {
	t.Helper()
	changes, err := admin.Watch(t.Context(), &batchv1.JobList{}, client.InNamespace(namespace))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := &witness{last: map[types.UID]*batchv1.Job{}, gone: map[types.UID]bool{}}
	go w.look(t.Context(), changes)
	return w
}

func (w *witness) look(ctx context.Context, changes watch.Interface) {
	for change := range changes.ResultChan() {
		w.note(change)
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = append(w.faults, "the witness went blind: its watch ended")
	}
}

func (w *witness) note(change watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job, isJob := change.Object.(*batchv1.Job)
	if !isJob {
		w.faults = append(w.faults, fmt.Sprintf("the witness sees no Job, but %v", change.Object))
		return
	}
	w.last[job.UID] = job
	if change.Type == watch.Deleted {
		w.gone[job.UID] = true
		if ending(job) == nil {
			w.faults = append(w.faults, fmt.Sprintf("Job %s was deleted while it ran", job.Name))
		}
	}
	w.most = max(w.most, w.unfinished())
}

func (w *witness) unfinished() int {
	count := 0
	for uid, job := range w.last {
		if !w.gone[uid] && ending(job) == nil {
			count++
		}
	}
	return count
}

// ending is the condition that ended the Job, nil while it has not.
func ending(job *batchv1.Job) *batchv1.JobCondition {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &job.Status.Conditions[i]
}

// lastOf is the Job as it was last seen, nil if it was not yet.
func (w *witness) lastOf(uid types.UID) *batchv1.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[uid]
}

// created is how many Jobs were seen, those that are gone included.
func (w *witness) created() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.last)
}

// mostAtOnce is how many Jobs were unfinished at the same time.
func (w *witness) mostAtOnce() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// verdict is what must not happen and did.
func (w *witness) verdict() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

// The negative control of every test that expects no verdict.
func TestWitnessReportsARunningJobThatIsDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create()
	job := s.startJob()
	s.Expect(s.witness.verdict()).To(BeEmpty())
	s.kubectl("delete", "job", job.Name)
	s.Eventually(s.witness.verdict).Should(ConsistOf(ContainSubstring(job.Name)))
	s.Eventually(s.witness.created).Should(Equal(2))
}
