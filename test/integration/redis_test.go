// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/redistest"
)

func TestSubscriptionsKilledDuringPushesLoseNothing(t *testing.T) {
	t.Parallel()
	s := newSceneOn(t, redistest.New(t, redistest.Options{}))
	s.create(polling(never), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 10 })
	s.awaitSubscription()
	const rounds, messages = 20, 13
	killed := int64(0)
	for range rounds {
		s.push(messages - 1)
		count, err := s.redis.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
		s.Expect(err).NotTo(HaveOccurred())
		killed += count
		s.push(1)
		s.Consistently(s.redis.Client().Ping(t.Context()).Err).WithTimeout(glance).Should(Succeed())
	}
	s.Expect(killed).To(BeNumerically(">", 1))
	s.expectJobsEver(rounds * messages / 10)
}

func TestOutageOfRedisStopsCreationAndItsEndResumesIt(t *testing.T) {
	t.Parallel()
	s := newSceneOn(t, redistest.New(t, redistest.Options{}))
	s.create(polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 2 })
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)

	s.Expect(s.redis.Kill()).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.succeed(s.job())
	s.expectJobsEver(2)
	s.Expect(s.status()).To(HaveField("ActiveJobs", BeEquivalentTo(1)), "what needs no queue is not reported")

	s.update(polling(never))
	s.Expect(s.redis.Restart(t.Context())).To(Succeed())
	s.push(4)
	s.Eventually(s.jobsEver).Should(Equal(5))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	s.expectJobsEver(5)
	s.Eventually(s.events).WithArguments("RedisUnreachable").Should(Equal(1))
	s.Eventually(s.events).WithArguments("QueueConnected").Should(Equal(1))
	s.Expect(s.operator.Exited()).NotTo(BeClosed())
}

func TestOutageOfOneRedisLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for name, breakDown := range map[string]func(*redistest.Server) error{
		"killed":  (*redistest.Server).Kill,
		"hanging": (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create(polling(never))
			s.awaitSubscription()
			broken := s.beside("broken").on(redistest.New(t, redistest.Options{}))
			broken.create(polling(1))
			broken.awaitSubscription()

			s.Expect(breakDown(broken.redis)).To(Succeed())
			broken.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
			s.push(3)
			s.Eventually(s.jobsEver).Should(Equal(3))
			s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
			s.expectJobsEver(3)
			s.Expect(s.events("RedisUnreachable")).To(BeZero())
		})
	}
}

func TestKeyOfAnotherTypeIsReportedWithTheCure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.Expect(s.redis.Client().Set(t.Context(), s.queue, "no list", 0).Err()).To(Succeed())
	s.create(polling(never))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonWrongType)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonWrongType)
	s.Expect(s.condition(scaledjobv1.ConditionQueueConnected).Message).To(And(
		ContainSubstring("another type"), ContainSubstring("delete")))

	neighbour := s.beside("neighbour")
	neighbour.create(polling(never))
	neighbour.push(2)
	neighbour.expectJobsEver(2)

	s.Expect(s.redis.Client().Del(t.Context(), s.queue).Err()).To(Succeed())
	s.push(3)
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.expectJobsEver(2 + 3)
}
