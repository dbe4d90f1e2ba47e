// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// jobWatch sees every change of the Jobs of a namespace by a watch of its own,
// which shares nothing with the operator.
type jobWatch struct {
	mu sync.Mutex
	// last is the last that was seen of each Job there ever was.
	last map[types.UID]*batchv1.Job
	gone map[types.UID]bool
	// most is how many were unfinished at once.
	most int
	// faults are what must not happen and did.
	faults []string
}

// watchJobs starts a watch in an empty namespace, which stays until the test ends.
func watchJobs(t *testing.T, namespace string) *jobWatch {
	t.Helper()
	changes, err := shared.API.Watch(t.Context(), &batchv1.JobList{}, client.InNamespace(namespace))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := &jobWatch{last: map[types.UID]*batchv1.Job{}, gone: map[types.UID]bool{}}
	go w.look(t.Context(), changes)
	return w
}

func (w *jobWatch) look(ctx context.Context, changes watch.Interface) {
	for change := range changes.ResultChan() {
		w.note(change)
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = append(w.faults, "the watch of Jobs ended")
	}
}

func (w *jobWatch) note(change watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job, isJob := change.Object.(*batchv1.Job)
	if !isJob {
		w.faults = append(w.faults, fmt.Sprintf("the watch shows no Job, but %v", change.Object))
		return
	}
	w.last[job.UID] = job
	if change.Type == watch.Deleted {
		w.gone[job.UID] = true
		if endCondition(job) == nil {
			w.faults = append(w.faults, fmt.Sprintf("Job %s was deleted while it ran", job.Name))
		}
	}
	w.most = max(w.most, w.unfinished())
}

func (w *jobWatch) unfinished() int {
	count := 0
	for uid, job := range w.last {
		if !w.gone[uid] && endCondition(job) == nil {
			count++
		}
	}
	return count
}

// lastOf is the Job as it was last seen, nil if it was not yet.
func (w *jobWatch) lastOf(uid types.UID) *batchv1.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[uid]
}

// created is how many Jobs were seen, those that are gone included.
func (w *jobWatch) created() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.last)
}

// mostUnfinished is how many Jobs were unfinished at the same time.
func (w *jobWatch) mostUnfinished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// violations are what must not happen and did.
func (w *jobWatch) violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

// The negative control of every test that expects no verdict.
func TestWitnessReportsARunningJobThatIsDeleted(t *testing.T) {
	t.Parallel()
	s := newWitnessedScaledJob(t)
	s.create(onceByEvents)
	job := s.startJob()
	s.Expect(s.watch.violations()).To(BeEmpty())
	s.kubectl("delete", "job", job.Name)
	s.Eventually(s.watch.violations).Should(ConsistOf(ContainSubstring(job.Name)))
	s.Eventually(s.watch.created).Should(Equal(2))
}
