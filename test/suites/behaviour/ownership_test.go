// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

func TestForeignJobsWithOurLabelsAreNeitherCountedNorDeleted(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	running, finished := s.foreignJob("running", nil), s.foreignJob("finished", map[string]string{cluster.PodSucceedAfter: "0s"})
	s.Eventually(func() bool { return hasFinished(s.live(finished)) }).Should(BeTrue())
	none := int32(0)
	s.create(scene.Polling(scene.Never), scene.AtMost(2), func(spec *scaledjobv1.ScaledJobSpec) { spec.SuccessfulJobsHistoryLimit = &none })
	s.Push(5)
	s.expectJobsEver(2 + 2)
	s.Expect(s.Status()).To(And(HaveField("ActiveJobs", BeEquivalentTo(2)), HaveField("SucceededJobs", BeZero())))
	s.Expect(s.live(running).UID).To(Equal(running.UID))
	s.Expect(s.live(finished).UID).To(Equal(finished.UID))
}

// foreignJob makes a Job that looks like one of the ScaledJob's.
func (s *scaledJob) foreignJob(name string, podAnnotations map[string]string) *batchv1.Job {
	s.t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: map[string]string{
			scaledjobv1.LabelScaledJob: s.Name, scaledjobv1.LabelManagedBy: scaledjobv1.ManagedBy,
		}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: podAnnotations},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "worker", Image: "none"}},
			},
		}},
	}
	s.Expect(s.API.Create(s.t.Context(), job)).To(Succeed())
	return job
}

// live is the Job as it is now.
func (s *scaledJob) live(job *batchv1.Job) *batchv1.Job {
	s.t.Helper()
	current := &batchv1.Job{}
	s.Expect(s.API.Get(s.t.Context(), client.ObjectKeyFromObject(job), current)).To(Succeed())
	return current
}

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
	s.create(scene.Polling(1), scene.AtMost(jobs))
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

// Jobs end in the order opposite to that in which they started, so that keeping the ones that started last would keep
// others, as would one limit for both kinds. A failed Job has no completionTime: going by that would keep any.
func TestHistoryKeepsTheJobsThatEndedLast(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	one := int32(1)
	s.create(onceByEvents, func(spec *scaledjobv1.ScaledJobSpec) {
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = &one, &one
	})
	var jobs []*batchv1.Job
	for range 6 {
		jobs = append(jobs, s.startJob())
		s.awaitNextSecond()
	}
	ends := []func(*batchv1.Job){s.fail, s.fail, s.succeed, s.fail, s.succeed, s.fail}
	for i, job := range slices.Backward(jobs) {
		s.remove()
		ends[i](job)
		s.awaitNextSecond()
	}

	kept := ConsistOf(jobs[0].Name, jobs[2].Name)
	s.Eventually(s.jobNames).Should(kept)
	s.Eventually(s.jobNamesOfPods).Should(kept)
	s.Eventually(s.Status).Should(And(
		HaveField("ActiveJobs", BeZero()),
		HaveField("SucceededJobs", BeEquivalentTo(1)),
		HaveField("FailedJobs", BeEquivalentTo(1))))
	s.expectJobsEver(len(jobs))
	s.Expect(s.jobNames()).To(kept)
}

// awaitNextSecond lets the second pass: the API keeps times in whole ones.
func (s *scaledJob) awaitNextSecond() {
	s.t.Helper()
	s.Eventually(time.Now).Should(BeTemporally(">=", time.Now().Truncate(time.Second).Add(time.Second)))
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
