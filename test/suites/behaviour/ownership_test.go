// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
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

func TestScaledJobOfAnEarlierNameHasNoPartInItsJobs(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.Push(3)
	s.expectJobsEver(3)
	s.delete(metav1.DeletePropagationOrphan)
	s.awaitDeletion()
	s.create(scene.Polling(scene.Never))
	s.expectJobsEver(3 + 3)
	s.Expect(s.Status()).To(HaveField("ActiveJobs", BeEquivalentTo(3)))
	s.Expect(s.jobs()).To(HaveLen(6))
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

// pushOn pushes a thousand messages a second, or as fast as Redis takes them, until the returned function is called, or the
// test ends.
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

// Foreground deletion deletes the Jobs before the ScaledJob. Each that goes
// frees a slot, and none of them may be filled.
func TestForegroundDeletionDuringPushesLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, jobs := range map[string]int32{"with all Jobs created": 10, "while Jobs are being created": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(scene.Polling(1), scene.AtMost(jobs))
			s.pushOn()
			s.Eventually(s.jobsEver).Should(BeNumerically(">=", 10))
			s.delete(metav1.DeletePropagationForeground)
			s.awaitDeletion()
			s.Eventually(s.jobs).Should(BeEmpty())
			ever := s.jobsEver()
			s.Expect(ever).To(BeNumerically("<=", jobs))
			s.Consistently(s.jobsEver).Should(Equal(ever))
		})
	}
}

// Deletion that orphans releases the Jobs one by one before the ScaledJob goes.
// None of them may be replaced.
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

func TestHistoryLimitsDropTheLongestFinishedJobsWithTheirPods(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	two, one := int32(2), int32(1)
	s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = &two, &one
		spec.JobTemplate.Spec.BackoffLimit = new(int32)
		spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	s.Push(6)
	s.Eventually(s.jobsEver).Should(Equal(6))
	s.empty()

	succeeded := []*batchv1.Job{s.finishOne(s.succeed), s.finishOne(s.succeed), s.finishOne(s.succeed)}
	s.Eventually(s.names).ShouldNot(ContainElement(succeeded[0].Name))
	s.Eventually(func() []corev1.Pod { return s.podsOf(succeeded[0]) }).Should(BeEmpty())

	failed := []*batchv1.Job{s.finishOne(s.fail), s.finishOne(s.fail)}
	s.Eventually(s.names).ShouldNot(ContainElement(failed[0].Name))
	s.Eventually(func() []corev1.Pod { return s.podsOf(failed[0]) }).Should(BeEmpty())

	s.Eventually(s.Status).Should(And(
		HaveField("SucceededJobs", BeEquivalentTo(2)), HaveField("FailedJobs", BeEquivalentTo(1)),
		HaveField("ActiveJobs", BeEquivalentTo(1))))
	s.expectJobsEver(6)
	s.Expect(s.names()).To(HaveLen(4))
	s.Expect(s.names()).To(ContainElements(succeeded[1].Name, succeeded[2].Name, failed[1].Name))
}

// finishOne ends a Job, and lets the second pass, as times are kept in seconds.
func (s *scaledJob) finishOne(end func(*batchv1.Job)) *batchv1.Job {
	s.t.Helper()
	job := s.job()
	end(job)
	second := time.Now().Truncate(time.Second).Add(time.Second)
	s.Eventually(time.Now).Should(BeTemporally(">", second))
	return job
}

func (s *scaledJob) names() []string {
	var names []string
	for _, job := range s.jobs() {
		names = append(names, job.Name)
	}
	return names
}

func TestJobsThatAreDeletedAreReplaced(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
	job := s.job()
	s.Expect(s.API.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	s.expectJobsEver(3)
}

func TestJobsThatLostTheirLabelsStillCount(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
	job := s.live(s.job())
	before := job.DeepCopy()
	job.Labels, job.Annotations = nil, nil
	s.Expect(s.API.Patch(t.Context(), job, client.MergeFrom(before))).To(Succeed())
	s.expectJobsEver(2)
	s.Push(1)
	s.expectJobsEver(3)
}

func TestSuspendedJobsCountAsActive(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) {
		suspended := true
		spec.JobTemplate.Spec.Suspend = &suspended
	})
	s.Push(2)
	s.expectJobsEver(2)
	s.Expect(s.Status()).To(And(HaveField("ActiveJobs", BeEquivalentTo(2)), HaveField("PendingJobs", BeEquivalentTo(2))))
}

// While a namespace is deleted, its Jobs go before its ScaledJobs may do.
func TestNamespaceWithAScaledJobCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	const jobs = 5
	s.create(scene.Polling(1), scene.AtMost(jobs))
	s.pushOn()
	s.Eventually(s.jobsEver).Should(Equal(jobs))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	s.Expect(s.API.Delete(t.Context(), namespace)).To(Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.API.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	}).Should(BeTrue())
	s.Expect(s.jobsEver()).To(Equal(jobs))
	s.Eventually(s.series).Should(BeEmpty())
}

func TestLongNamesGiveNamesOfJobsThatTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	const longest = 63
	s := newScaledJob(t).another(fmt.Sprintf("%0*d", longest, 1))
	s.create(scene.Polling(scene.Never))
	s.Push(2)
	s.expectJobsEver(2)
}
