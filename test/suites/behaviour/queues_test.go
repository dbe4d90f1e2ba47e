// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// group is the consumer group of the streams.
const group = "workers"

// allTypes are the flags by which Redis announces the growth of keys of every type.
func allTypes(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.New(t, redistest.Options{Events: allEvents})
}

// withQueues counts these keys, which are named after the namespace where the name is empty, and looks at them only if
// asked to.
func (s *scaledJob) withQueues(queues ...scaledjobv1.Queue) scene.Change {
	for i := range queues {
		queues[i].Name = s.Queue + queues[i].Name
	}
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.QueueName, spec.Queues, spec.PollingIntervalSeconds = "", queues, scene.Never
	}
}

// stream is a queue of type Stream with the consumer group.
func stream() scaledjobv1.Queue {
	return scaledjobv1.Queue{Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: group}}
}

// sortedSet is a queue of type SortedSet, with scores in milliseconds where they matter.
func sortedSet(window scaledjobv1.SortedSetWindow) scaledjobv1.Queue {
	if window == scaledjobv1.WindowAll {
		return scaledjobv1.Queue{Type: scaledjobv1.QueueSortedSet}
	}
	return scaledjobv1.Queue{
		Type:      scaledjobv1.QueueSortedSet,
		SortedSet: &scaledjobv1.SortedSetQueue{Window: window, ScoreUnit: scaledjobv1.ScoreMilliseconds},
	}
}

// kinds are queues of each kind, and the command by which each gets its i-th message.
var kinds = map[string]struct {
	queue scaledjobv1.Queue
	add   func(ctx context.Context, to redis.Cmdable, key string, i int) error
}{
	"List": {scaledjobv1.Queue{Type: scaledjobv1.QueueList}, func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		return to.RPush(ctx, key, i).Err()
	}},
	"Stream": {scaledjobv1.Queue{Type: scaledjobv1.QueueStream}, addEntry},
	"StreamWithGroup": {stream(), func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		_ = to.XGroupCreateMkStream(ctx, key, group, "0").Err() // It may be there.
		return addEntry(ctx, to, key, i)
	}},
	"SortedSet": {sortedSet(scaledjobv1.WindowAll), func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		return to.ZAdd(ctx, key, redis.Z{Score: math.MaxFloat64, Member: i}).Err()
	}},
	"SortedSetDue": {sortedSet(scaledjobv1.WindowDue), func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		return to.ZAdd(ctx, key, redis.Z{Score: float64(i), Member: i}, redis.Z{Score: math.Inf(1), Member: "scene.Never"}).Err()
	}},
	"SortedSetLive": {sortedSet(scaledjobv1.WindowLive), func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		return to.ZAdd(ctx, key, redis.Z{Score: math.Inf(1), Member: i}, redis.Z{Score: 1, Member: "over"}).Err()
	}},
	"Set": {scaledjobv1.Queue{Type: scaledjobv1.QueueSet}, func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		return to.SAdd(ctx, key, i).Err()
	}},
	"Hash": {scaledjobv1.Queue{Type: scaledjobv1.QueueHash}, func(ctx context.Context, to redis.Cmdable, key string, i int) error {
		return to.HSet(ctx, key, i, "message").Err()
	}},
}

func addEntry(ctx context.Context, to redis.Cmdable, key string, i int) error {
	return to.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{"message", i}}).Err()
}

// None of the messages waits for a look: each command is announced. A key of another type is reported until it is gone.
func TestMessagesOfEveryKindGetTheirJobsAtOnce(t *testing.T) {
	t.Parallel()
	server := allTypes(t)
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, server)
			s.create(s.withQueues(kind.queue))
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
			s.awaitQuiet()
			const messages = 3
			for i := range messages {
				s.Expect(kind.add(t.Context(), server.Client(), s.Queue, i)).To(Succeed())
				s.Eventually(s.jobsEver).Should(Equal(i + 1))
			}
			s.expectJobsEver(messages)
			s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(messages))))

			s.Expect(server.Client().Set(t.Context(), s.Queue, "text", 0).Err()).To(Succeed())
			s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonWrongType)
			s.expectCondition(scaledjobv1.ConditionStalled, metav1.ConditionTrue, scaledjobv1.ReasonWrongType)
			s.Expect(s.Status().QueueDepth).To(HaveValue(BeEquivalentTo(messages)), "what was last known")
			s.Expect(server.Client().Del(t.Context(), s.Queue).Err()).To(Succeed())
			for i := range messages + 1 {
				s.Expect(kind.add(t.Context(), server.Client(), s.Queue, i)).To(Succeed())
			}
			s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
			s.expectJobsEver(messages + 1)
		})
	}
}

// Nobody announces that a message has fallen due.
func TestADelayedMessageGetsItsJobWhenItIsDue(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, allTypes(t))
	s.create(s.withQueues(sortedSet(scaledjobv1.WindowDue)))
	s.awaitSubscription()
	now := time.Now()
	due := []time.Time{now.Add(time.Second), now.Add(3 * time.Second), now.Add(time.Hour)}
	var messages []redis.Z
	for _, at := range due {
		messages = append(messages, redis.Z{Score: float64(at.UnixMilli()), Member: at})
	}
	s.Expect(s.redis.Client().ZAdd(t.Context(), s.Queue, messages...).Err()).To(Succeed())
	for i, at := range due[:2] {
		s.Eventually(s.jobsEver).Should(BeNumerically(">", i))
		s.Expect(time.Now()).To(BeTemporally(">=", at.Truncate(time.Millisecond)), "no Job comes too soon")
	}
	s.expectJobsEver(2)
}

// A message that a worker takes is one that is worked on, until the worker is done with it.
func TestAMessageInProgressNeedsNoOtherJob(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, allTypes(t))
	s.create(s.withQueues(scaledjobv1.Queue{}, scaledjobv1.Queue{Name: ":busy", Role: scaledjobv1.RoleInProgress}), running)
	s.awaitSubscription()
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2))
	for range 2 {
		s.Expect(s.redis.Client().LMove(t.Context(), s.Queue, s.Queue+":busy", "RIGHT", "LEFT").Err()).To(Succeed())
	}
	s.Push(1)
	s.Eventually(s.jobsEver).Should(Equal(3))
	s.Eventually(s.Status).Should(HaveField("Queues", HaveExactElements(
		HaveField("Depth", HaveValue(BeEquivalentTo(1))), HaveField("Depth", HaveValue(BeEquivalentTo(2))),
	)))
	s.Expect(s.redis.Client().LRem(t.Context(), s.Queue+":busy", 0, "0").Err()).To(Succeed())
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(2))))
	s.expectJobsEver(3)
}

// What a group was not given yet is waiting, what it was given is in progress, and what it has acknowledged is done.
func TestAStreamIsCountedByItsGroup(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, allTypes(t))
	client := s.redis.Client()
	add := func() { s.Expect(addEntry(t.Context(), client, s.Queue, 0)).To(Succeed()) }
	read := func() string {
		s.t.Helper()
		read, err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: group, Consumer: "a", Streams: []string{s.Queue, ">"}, Count: 1}).Result()
		s.Expect(err).NotTo(HaveOccurred())
		return read[0].Messages[0].ID
	}
	expectDepth := func(depth int) {
		s.t.Helper()
		s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(depth))))
	}
	for range 5 {
		add()
	}
	s.create(s.withQueues(stream()), scene.Polling(1), running)
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonConsumerGroupNotFound)
	s.expectCondition(scaledjobv1.ConditionReconciling, metav1.ConditionTrue, scaledjobv1.ReasonConsumerGroupNotFound)
	s.Eventually(s.jobsEver).Should(Equal(1), "a first worker, who can create the group")
	expectDepth(1)

	s.Expect(client.XGroupCreate(t.Context(), s.Queue, group, "0").Err()).To(Succeed())
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	s.Eventually(s.jobsEver).Should(Equal(5))
	first := read()
	add()
	s.Eventually(s.jobsEver).Should(Equal(6))
	expectDepth(6)
	s.Expect(client.XAck(t.Context(), s.Queue, group, first).Err()).To(Succeed())
	expectDepth(5)

	// The server loses count of the group when an entry ahead of it is deleted. Then each is counted.
	entries := must.Get(client.XRange(t.Context(), s.Queue, "-", "+").Result())(s)
	s.Expect(client.XDel(t.Context(), s.Queue, entries[3].ID).Err()).To(Succeed())
	groups, err := client.Do(t.Context(), "XINFO", "GROUPS", s.Queue).Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(fmt.Sprint(groups)).To(ContainSubstring("lag:<nil>"))
	expectDepth(4)
	s.expectJobsEver(6)
}

func TestSeveralQueuesAreCalculated(t *testing.T) {
	t.Parallel()
	server := allTypes(t)
	for calculation, want := range map[scaledjobv1.QueuesCalculation]int{
		scaledjobv1.CalculateSum: 4, scaledjobv1.CalculateMax: 3, scaledjobv1.CalculateMin: 1, scaledjobv1.CalculateAvg: 2,
	} {
		t.Run(string(calculation), func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, server)
			s.Push(3)
			s.Expect(server.Client().SAdd(t.Context(), s.Queue+":set", 1, 2, 3, 4).Err()).To(Succeed())
			s.create(s.withQueues(
				scaledjobv1.Queue{}, scaledjobv1.Queue{Name: ":empty"},
				scaledjobv1.Queue{Name: ":set", Type: scaledjobv1.QueueSet, Threshold: new(int64(4))},
			), func(spec *scaledjobv1.ScaledJobSpec) { spec.QueuesCalculation = calculation })
			s.expectJobsEver(want)
		})
	}
}
