// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

func (s *scaledJob) delete(policy metav1.DeletionPropagation) {
	s.t.Helper()
	s.Delete(client.PropagationPolicy(policy))
}

func (s *scaledJob) awaitDeletion() {
	s.t.Helper()
	s.Eventually(func() bool {
		sj := s.Reference()
		return apierrors.IsNotFound(s.API.Get(s.t.Context(), client.ObjectKeyFromObject(sj), sj))
	}).Should(BeTrue())
}

// pushOn pushes a thousand messages a second, or as fast as Redis takes them, until the returned function is called, or
// the test ends.
func (s *scaledJob) pushOn() (stop func()) {
	done, turns := make(chan struct{}), time.NewTicker(time.Millisecond)
	var pushing sync.WaitGroup
	pushing.Go(func() {
		defer turns.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-s.t.Context().Done():
				return
			case <-turns.C:
				// A list that grows for as long as this would fill the memory.
				pipe := s.redis.Client().Pipeline()
				pipe.LPush(s.t.Context(), s.Queue, i)
				pipe.LTrim(s.t.Context(), s.Queue, 0, 10_000)
				_, _ = pipe.Exec(s.t.Context())
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); pushing.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// Deletion that orphans releases the Jobs one by one before the ScaledJob goes. None of them may be replaced.
func TestOrphanedJobsRunOnAndAreNotReplaced(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	const jobs = 20
	s.create(sjtest.Polling(1), sjtest.AtMost(jobs))
	s.pushOn()
	s.expectJobsEver(jobs)
	s.delete(metav1.DeletePropagationOrphan)
	s.awaitDeletion()
	s.Consistently(s.jobsEver).Should(Equal(jobs))
	s.Expect(s.jobs()).To(And(HaveLen(jobs), HaveEach(And(
		HaveField("OwnerReferences", BeEmpty()),
		HaveField("DeletionTimestamp", BeNil()),
	))))
}

func (s *scaledJob) jobNames() []string {
	s.t.Helper()
	names := []string{}
	for _, job := range s.jobs() {
		names = append(names, job.Name)
	}
	return names
}

// jobNamesOfPods are the names of the Jobs that the Pods belong to.
func (s *scaledJob) jobNamesOfPods() []string {
	s.t.Helper()
	names := []string{}
	for _, pod := range s.pods() {
		names = append(names, pod.Labels[batchv1.JobNameLabel])
	}
	return names
}
