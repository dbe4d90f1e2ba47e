// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

func TestSubscriptionsKilledDuringPushesLoseNothing(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 10 })
	const rounds, messages = 20, 13
	for range rounds {
		s.awaitSubscription()
		s.Push(messages - 1)
		s.killSubscription()
		s.Push(1)
	}
	s.expectJobsEver(rounds * messages / 10)
}

func TestPushBetweenTwoSubscriptionsIsNotMissed(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(scene.Polling(scene.Never))
	for round := range 10 {
		s.awaitSubscription()
		before := s.Reconciles()
		s.killSubscription()
		// The end of a subscription brings a reconcile that is too early.
		s.Eventually(s.Reconciles).WithPolling(time.Millisecond).Should(BeNumerically(">", before))
		s.Push(1)
		s.Eventually(s.jobsEver).Should(Equal(round + 1))
	}
}

// killSubscription cuts the operator's subscription off.
func (s *scaledJob) killSubscription() {
	s.t.Helper()
	killed, err := s.redis.Client().ClientKillByFilter(s.t.Context(), "TYPE", "pubsub").Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(killed).To(BeEquivalentTo(1))
}

func TestOutageOfRedisStopsCreationAndItsEndResumesIt(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(scene.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 2 })
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)

	s.Expect(s.redis.Kill()).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.succeed(s.job())
	s.expectJobsEver(2)
	s.Eventually(s.Status).Should(HaveField("ActiveJobs", BeEquivalentTo(1)), "what needs no queue is not reported")

	s.Update(scene.Polling(scene.Never))
	s.Expect(s.redis.Restart(t.Context())).To(Succeed())
	s.Push(4)
	s.Eventually(s.jobsEver).Should(Equal(5))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	s.expectJobsEver(5)
	s.Eventually(s.events).WithArguments("RedisUnreachable").Should(Equal(1))
	s.Eventually(s.events).WithArguments("QueueConnected").Should(Equal(1))
	s.Expect(s.Operator.Exited()).NotTo(BeClosed())
}

func TestOutageOfOneRedisLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for name, breakDown := range map[string]func(*redistest.Server) error{
		"killed":  (*redistest.Server).Kill,
		"hanging": (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(scene.Polling(scene.Never))
			s.awaitSubscription()
			broken := s.another("broken").on(redistest.New(t, redistest.Options{}))
			broken.create(scene.Polling(1))
			broken.awaitSubscription()

			s.Expect(breakDown(broken.redis)).To(Succeed())
			broken.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
			s.Push(3)
			s.Eventually(s.jobsEver).Should(Equal(3))
			s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
			s.expectJobsEver(3)
			s.Expect(s.events("RedisUnreachable")).To(BeZero())
		})
	}
}

func TestOutageIsReportedWithoutWaitingForTheResync(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(scene.Polling(scene.Never))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.awaitSubscription()
	s.Expect(s.redis.Kill()).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.Expect(s.redis.Restart(t.Context())).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
}

func TestMessagesOfAHangingRedisGetTheirJobsOnceItGoesOn(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(scene.Polling(1))
	s.awaitSubscription()
	s.Expect(s.redis.Pause()).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.Update(scene.Polling(scene.Never))
	s.Expect(s.redis.Resume()).To(Succeed())
	s.Push(3)
	s.Eventually(s.jobsEver).Should(Equal(3))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.expectJobsEver(3)
}

func TestScaledJobFromBeforeRedisGetsItsJobsOnceRedisIsThere(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.Expect(s.redis.Kill()).To(Succeed())
	s.create(scene.Polling(scene.Never))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	s.Expect(s.Status()).To(And(HaveField("QueueDepth", BeNil()), HaveField("DesiredJobs", BeNil())))
	s.Expect(s.redis.Restart(t.Context())).To(Succeed())
	s.Push(2)
	s.expectJobsEver(2)
}

func TestRefusalsOfRedisAreReported(t *testing.T) {
	t.Parallel()
	for reason, args := range map[string][]string{
		scaledjobv1.ReasonAuthFailed:       {"--requirepass", "secret"},
		scaledjobv1.ReasonPermissionDenied: {"--user", "default", "on", "nopass", "~other:*", "&*", "+@all"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, redistest.New(t, redistest.Options{Args: args}))
			s.create(scene.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 1 })
			s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, reason)
			s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, reason)
			s.Eventually(s.events).WithArguments(reason).Should(Equal(1))
			s.expectJobsEver(0)
		})
	}
}

func TestRedisWithoutNotificationsIsPolled(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{Events: redistest.NoEvents}))
	s.create(scene.Polling(1))
	s.awaitSubscription()
	s.Push(3)
	s.expectJobsEver(3)
}

func TestOneConnectionListensForAllScaledJobsOfARedis(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	const scaledJobs = 20
	var all []*scaledJob
	for i := range scaledJobs {
		one := s.another(fmt.Sprintf("worker-%d", i))
		one.create(scene.Polling(scene.Never))
		all = append(all, one)
	}
	for _, one := range all {
		one.awaitSubscription()
		one.Push(1)
	}
	s.Eventually(s.jobsEver).Should(Equal(scaledJobs))
	clients, err := s.redis.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(strings.Count(clients, "\n")).To(Equal(1), clients)
}

func TestScaledJobsThatShareAQueueAreBothScaled(t *testing.T) {
	t.Parallel()
	one := newScaledJob(t)
	two := one.another("second")
	two.Queue = one.Queue
	one.create(scene.Polling(scene.Never))
	two.create(scene.Polling(scene.Never))
	one.awaitSubscription()
	one.Push(2)
	one.expectJobsEver(2 + 2)
	two.expectJobsEver(2 + 2)
}

func TestQueueNamesAreTakenLiterally(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.Queue += ":* ?[^a]{b}\\\"\n__keyspace@0__:é"
	s.create(scene.Polling(scene.Never))
	s.awaitSubscription()
	s.Push(3)
	s.expectJobsEver(3)
}

func TestEveryCommandThatMakesAListLongerGivesJobs(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.awaitSubscription()
	key, source, ctx := s.Queue, "{"+s.Queue+"}:source", t.Context()
	for i, command := range [][]any{
		{"RPUSH", key, "a"},
		{"LPUSHX", key, "b"},
		{"RPUSHX", key, "c"},
		{"LINSERT", key, "BEFORE", "a", "d"},
		{"LMOVE", source, key, "LEFT", "RIGHT"},
		{"RPOPLPUSH", source, key},
		{"BLMOVE", source, key, "LEFT", "LEFT", 1},
		{"EVAL", "return redis.call('RPUSH', KEYS[1], 'e')", 1, key},
		{"SORT", source, "ALPHA", "STORE", key},
		{"COPY", source, key, "REPLACE"},
		{"RENAME", source, key},
	} {
		// Those that replace the queue do so with a list that is longer.
		s.Expect(s.redis.Client().Del(ctx, source).Err()).To(Succeed())
		for range i + 2 {
			s.Expect(s.redis.Client().RPush(ctx, source, "x").Err()).To(Succeed())
		}
		s.Expect(s.redis.Client().Do(ctx, command...).Err()).To(Succeed())
		depth, err := s.redis.Client().LLen(ctx, key).Result()
		s.Expect(err).NotTo(HaveOccurred())
		s.Eventually(s.jobsEver).Should(BeEquivalentTo(depth), "after %v", command[0])
	}
}

func TestChangedAddressIsFollowed(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.awaitSubscription()
	moved := s.on(redistest.New(t, redistest.Options{}))
	moved.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.RedisAddress = moved.redis.Addr() })
	moved.awaitSubscription()
	s.Eventually(s.Subscribers).Should(BeZero())
	s.Push(5)
	s.Consistently(s.jobsEver).Should(BeZero())
	moved.Push(2)
	moved.expectJobsEver(2)
}

func TestKeyOfAnotherTypeIsReportedWithTheCure(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.Expect(s.redis.Client().Set(t.Context(), s.Queue, "no list", 0).Err()).To(Succeed())
	s.create(scene.Polling(scene.Never))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonWrongType)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonWrongType)
	s.Expect(s.condition(scaledjobv1.ConditionQueueConnected)).To(And(
		ContainSubstring("has another type than the spec says"), ContainSubstring("name another key")))

	neighbour := s.another("neighbour")
	neighbour.create(scene.Polling(scene.Never))
	neighbour.Push(2)
	neighbour.expectJobsEver(2)

	s.Expect(s.redis.Client().Del(t.Context(), s.Queue).Err()).To(Succeed())
	s.Push(3)
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.expectJobsEver(2 + 3)
}
