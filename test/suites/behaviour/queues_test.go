// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"math"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
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
