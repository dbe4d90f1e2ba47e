// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestFloodOfPushesWritesTheStatusSparsely(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*scaledjobv1.ScaledJobSpec){
		"with as many Jobs as there may be": atMost(1),
		"with no other Job due":             func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 1_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create(polling(never), change)
			s.push(1)
			s.Eventually(s.jobsEver).Should(Equal(1))
			s.awaitQuiet()
			s.expectSparseWrites(func() {
				stop := s.pushOn()
				s.Consistently(s.jobsEver).WithTimeout(2 * calm).Should(Equal(1))
				stop()
			})
		})
	}
}

// expectSparseWrites counts the changes of the ScaledJob while do changes the
// depth of its queue, until its status tells the last one.
func (s *scene) expectSparseWrites(do func()) {
	s.t.Helper()
	count := s.countChanges()
	begin := time.Now()
	do()
	depth, err := s.redis.Client().LLen(s.t.Context(), s.queue).Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(s.status).Should(HaveField("QueueDepth", HaveValue(Equal(depth))))
	// The object that is there already counts too, and a change of a condition
	// is written at once.
	const others, perSecond = 4, 2
	s.Expect(count()).To(And(
		BeNumerically(">", 1), BeNumerically("<=", others+perSecond*time.Since(begin).Seconds())))
}

// countChanges watches the ScaledJob until the returned function is called,
// which tells how often it appeared or changed.
func (s *scene) countChanges() (stop func() int) {
	s.t.Helper()
	changes, err := s.plane.admin.Watch(s.t.Context(), &scaledjobv1.ScaledJobList{}, client.InNamespace(s.namespace))
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
	s := newScene(t)
	s.create(polling(never), atMost(3))
	s.awaitSubscription()
	s.push(2)
	s.expectJobsEver(2)
	s.push(5)
	s.expectJobsEver(3)
	created := 0
	for _, line := range s.log() {
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
