// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// While Redis is away, no Job is created, what needs no Redis is reported, and nothing but the connection reports
// either end of it.
func TestOutageOfRedisStopsCreationAndItsEndResumesIt(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, redistest.New(t, redistest.Options{}))
	s.create(sjtest.Polling(sjtest.Never), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 2 })
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.awaitSubscription()

	s.Expect(s.redis.Kill()).To(Succeed())
	for _, kind := range []string{
		scaledjobv1.ConditionQueueConnected, scaledjobv1.ConditionNotificationsActive, scaledjobv1.ConditionReady,
	} {
		s.expectCondition(kind, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	}
	s.Expect(s.Status().Mode).To(Equal(scaledjobv1.ModePolling))
	s.succeed(s.job())
	s.expectJobsEver(2)
	s.Eventually(s.Status).Should(HaveField("ActiveJobs", BeEquivalentTo(1)), "what needs no queue is reported")

	s.Update(sjtest.Polling(sjtest.Never))
	s.Expect(s.redis.Restart(t.Context())).To(Succeed())
	s.Push(4)
	s.Eventually(s.jobsEver).Should(Equal(5))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	s.Eventually(s.Status).Should(HaveField("Mode", scaledjobv1.ModeEvents))
	s.expectJobsEver(5)
	for _, reason := range []string{"RedisUnreachable", "QueueConnected", "NotificationsUnavailable", "NotificationsRestored"} {
		s.Eventually(s.events).WithArguments(reason).Should(Equal(1), reason)
	}
}

func TestEveryCommandThatMakesAListLongerGivesJobs(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never))
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
		depth := must.Get(s.redis.Client().LLen(ctx, key).Result())(s)
		s.Eventually(s.jobsEver).Should(BeEquivalentTo(depth), "after %v", command[0])
	}
}

func TestMovedQueueIsFollowed(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*scaledJob) *scaledJob{
		"to another address": func(s *scaledJob) *scaledJob {
			moved := s.withServer(redistest.New(s.t, redistest.Options{}))
			moved.Update(sjtest.At(moved.redis.Addr()))
			return moved
		},
		"to another key": func(s *scaledJob) *scaledJob {
			moved := s.another(s.Name)
			moved.Queue = s.Namespace + ":renamed"
			moved.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = moved.Queue })
			return moved
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(sjtest.Polling(sjtest.Never))
			s.awaitSubscription()
			moved := move(s)
			moved.awaitSubscription()
			s.Eventually(s.Subscribers).Should(BeZero())
			s.Push(5)
			s.Consistently(s.jobsEver).Should(BeZero())
			moved.Push(2)
			moved.expectJobsEver(2)
			if moved.Queue != s.Queue {
				s.Expect(s.series()).To(BeEmpty())
			}
		})
	}
}

// denied are users of Redis who may do all but something.
func denied(rules ...string) redistest.Options {
	return redistest.Options{Args: append([]string{"--user", "default", "on", "nopass", "~*", "&*", "+@all"}, rules...)}
}

// That the API server was not asked is no fault of the template.
func TestAQuotaKeepsTheTemplateFromBeingChecked(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never))
	s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionTrue, scaledjobv1.ReasonAccepted)
	s.allowJobs(0)
	s.Update(image("other"))
	s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked)
	s.Expect(s.condition(scaledjobv1.ConditionTemplateValid)).To(ContainSubstring("exceeded quota"))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
}

// The setting is the only thing that the operator may change in Redis, and only if its flag says so.
func TestNotificationsAreConfiguredOnRequest(t *testing.T) {
	t.Parallel()
	s := newScaledJobIn(t, withoutOperator, redistest.New(t, redistest.Options{Events: "Ex"}))
	s.Operator = s.operate("--configure-redis-notifications")
	s.create(sjtest.Polling(sjtest.Never))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	flags := must.Get(s.redis.Client().ConfigGet(t.Context(), "notify-keyspace-events").Result())(s)
	s.Expect(strings.Split(flags["notify-keyspace-events"], "")).To(ConsistOf("K", "E", "l", "g", "x"))
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
}

// Without proof, the fallback bounds how long a message waits.
func TestQueueWithoutNotificationsIsReadAtTheFallbackInterval(t *testing.T) {
	t.Parallel()
	s := newScaledJobIn(t, withoutOperator, redistest.New(t, redistest.Options{Events: redistest.NoEvents}))
	s.Operator = s.operate("--polling-fallback-interval=1s")
	s.create(sjtest.Polling(sjtest.Never))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionFalse, scaledjobv1.ReasonNotConfigured)
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
}
