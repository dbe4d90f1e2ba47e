// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

func TestFloodOfPushesWritesTheStatusSparsely(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]sjtest.Change{
		"with as many Jobs as there may be": sjtest.AtMost(1),
		"with no other Job due":             func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 1_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(sjtest.Polling(sjtest.Never), change)
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

// The negative control: somebody who writes the status at each change.
func TestControlStatusWrittenAtEachChange(t *testing.T) {
	t.Parallel()
	s := newScaledJobWithoutOperator(t)
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
		depth := must.Get(s.redis.Client().LLen(s.t.Context(), s.Queue).Result())(s)
		s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(Equal(depth))))
	})
	s.Expect(writes).To(And(BeNumerically(">", 1), BeNumerically("<=", bound)))
}

// writesDuring counts the changes of the ScaledJob, and returns how many may be in as much time.
func (s *scaledJob) writesDuring(do func()) (writes int, bound float64) {
	s.t.Helper()
	count := s.countChanges()
	begin := time.Now()
	do()
	// The object that is there already counts too, and a change of a condition is written at once.
	const others, perSecond = 4, 1.2
	return count(), others + perSecond*time.Since(begin).Seconds()
}

// countChanges watches the ScaledJob until the returned function is called,
// which tells how often it appeared or changed.
func (s *scaledJob) countChanges() (stop func() int) {
	s.t.Helper()
	changes := must.Get(s.API.Watch(s.t.Context(), &scaledjobv1.ScaledJobList{}, client.InNamespace(s.Namespace)))(s)
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
	s.create(sjtest.Polling(sjtest.Never), sjtest.AtMost(3))
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
