// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

func TestFloodOfPushesWritesTheStatusSparsely(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]scene.Change{
		"with as many Jobs as there may be": scene.AtMost(1),
		"with no other Job due":             func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 1_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(scene.Polling(scene.Never), change)
			s.Push(1)
			s.Eventually(s.jobsEver).Should(Equal(1))
			s.awaitQuiet()
			s.expectSparseWrites(func() {
				stop := s.pushOn()
				s.Consistently(s.jobsEver).WithTimeout(2 * quietPeriod).Should(Equal(1))
				stop()
			})
		})
	}
}

// Jobs finish as fast as the API server takes it, and are replaced and pruned.
func TestJobsThatFinishAllTheTimeWriteTheStatusSparsely(t *testing.T) {
	t.Parallel()
	const limit, kept, finishes = 20, 5, 500
	s := newLonelyScaledJob(t)
	s.create(scene.Polling(scene.Never), scene.AtMost(limit), idle, func(spec *scaledjobv1.ScaledJobSpec) {
		history := int32(kept)
		spec.SuccessfulJobsHistoryLimit = &history
	})
	s.Operator = s.operate()
	s.Push(limit + finishes)
	s.Eventually(s.jobsEver).Should(Equal(limit))
	s.awaitQuiet()
	s.expectSparseWrites(func() {
		finished := map[types.UID]bool{}
		s.Eventually(func() int {
			s.finishAll(finished, finishes)
			return len(finished)
		}).WithPolling(time.Millisecond).WithTimeout(5 * time.Minute).Should(Equal(finishes)) // as fast as the machine is
		s.Eventually(s.jobsEver).Should(Equal(limit + finishes))
	})
	s.Eventually(s.Status).Should(And(
		HaveField("ActiveJobs", BeEquivalentTo(limit)), HaveField("SucceededJobs", BeEquivalentTo(kept))))
	s.expectJobsEver(limit + finishes)
}

// idle has the Jobs left alone by all but the test.
func idle(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate = witness.IdleJob() }

// finishAll does as workers do with all Jobs that are not among those which have
// finished, until so many have: it takes a message for each and finishes it.
func (s *scaledJob) finishAll(finished map[types.UID]bool, most int) {
	s.t.Helper()
	for _, job := range s.jobs() {
		if len(finished) == most || hasFinished(job) || finished[job.UID] {
			continue
		}
		s.Expect(s.redis.Client().RPop(s.t.Context(), s.Queue).Err()).To(Succeed())
		s.Expect(witness.Complete(s.t.Context(), s.API, client.ObjectKeyFromObject(job))).To(Succeed())
		finished[job.UID] = true
	}
}

// The negative control: somebody who writes the status at each change.
func TestStatusWrittenAtEachChangeIsNotSparse(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.create()
	writes, bound := s.writesDuring(func() {
		for depth := range int64(200) {
			sj := s.Get()
			sj.Status.QueueDepth = &depth
			s.Expect(s.API.Status().Update(t.Context(), sj)).To(Succeed())
		}
	})
	s.Expect(writes).To(BeNumerically(">", bound))
}

// expectSparseWrites fails if the status is written too often while do changes the
// depth of the queue, or does not tell the last one in the end.
func (s *scaledJob) expectSparseWrites(do func()) {
	s.t.Helper()
	writes, bound := s.writesDuring(func() {
		do()
		depth, err := s.redis.Client().LLen(s.t.Context(), s.Queue).Result()
		s.Expect(err).NotTo(HaveOccurred())
		s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(Equal(depth))))
	})
	s.Expect(writes).To(And(BeNumerically(">", 1), BeNumerically("<=", bound)))
}

// writesDuring counts the changes of the ScaledJob, and tells how many may be in
// as much time.
func (s *scaledJob) writesDuring(do func()) (writes int, bound float64) {
	s.t.Helper()
	count := s.countChanges()
	begin := time.Now()
	do()
	// The object that is there already counts too, and a change of a condition
	// is written at once.
	const others, perSecond = 4, 1.2
	return count(), others + perSecond*time.Since(begin).Seconds()
}

// countChanges watches the ScaledJob until the returned function is called,
// which tells how often it appeared or changed.
func (s *scaledJob) countChanges() (stop func() int) {
	s.t.Helper()
	changes, err := s.API.Watch(s.t.Context(), &scaledjobv1.ScaledJobList{}, client.InNamespace(s.Namespace))
	s.Expect(err).NotTo(HaveOccurred())
	counted := make(chan int)
	go func() {
		count := 0
		for range changes.ResultChan() {
			count++
		}
		counted <- count
	}()
	return func() int {
		changes.Stop()
		return <-counted
	}
}

func TestLogHasALineForEachDecisionAndNoneForANotification(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), scene.AtMost(3))
	s.awaitSubscription()
	s.Push(2)
	s.expectJobsEver(2)
	s.Push(5)
	s.expectJobsEver(3)
	created := 0
	for line := range strings.Lines(s.log()) {
		entry := struct {
			Level, Msg string
			Created    int
		}{}
		s.Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed())
		s.Expect(entry).To(And(HaveField("Level", "info"), HaveField("Msg", "created Jobs")), line)
		created += entry.Created
	}
	s.Expect(created).To(Equal(3))

	before := s.log()
	stop := s.pushOn()
	s.awaitResyncs()
	stop()
	s.Expect(s.log()).To(Equal(before))
}

// Of the creates in one series of events, it names the first.
func TestEventsNameTheReconcileThatIsInTheLog(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.Push(1)
	s.Eventually(s.events).WithArguments("CreatedJobs").Should(Equal(1))
	all, err := s.Events(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	for _, event := range all {
		id := event.Annotations["batch.miracle.dev/reconcile-id"]
		s.Expect(id).NotTo(BeEmpty(), event.Reason)
		if event.Reason == "CreatedJobs" {
			s.Expect(s.Operator.LogsAbout(id)).To(ContainSubstring("created Jobs"))
		}
	}
}
