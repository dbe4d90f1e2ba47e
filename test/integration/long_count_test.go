// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// longStream makes a stream of which the server does not know how many entries its group lacks, and which takes long to count.
func (s *scene) longStream() {
	s.t.Helper()
	client, ctx := s.redis.Client(), s.t.Context()
	const pages, page = 300, 1000
	for range pages {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range page {
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: s.queue, Values: []any{"message", strings.Repeat("x", 100)}})
			}
			return nil
		})
		s.Expect(err).NotTo(HaveOccurred())
	}
	first, err := client.XRangeN(ctx, s.queue, "-", "+", 2).Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(client.XGroupCreate(ctx, s.queue, group, first[1].ID).Err()).To(Succeed())
}

// one has a single Job be due, however many messages there are.
func one(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 1_000_000 }

// Half a second is not enough to count all, and for how many it is differs. That is no growth which nobody announced.
func TestAStreamThatTakesLongToCountIsNoSignOfLostEvents(t *testing.T) {
	t.Parallel()
	s := newSceneOn(t, allTypes(t))
	s.longStream()
	s.create(s.of(stream()), running, polling(1), one)
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, "True", scaledjobv1.ReasonSubscribed)
	s.Consistently(func() string { return s.condition(scaledjobv1.ConditionNotificationsActive) }).WithTimeout(20 * time.Second).
		Should(HavePrefix("True Subscribed"))
}

// Counting must not take all workers, nor all of the server and the processor, from others.
func TestStreamsThatTakeLongToCountDoNotHoldUpOthers(t *testing.T) {
	s := newSceneOn(t, allTypes(t))
	s.longStream()
	neighbour := s.beside("neighbour")
	neighbour.create(polling(never), running, atMost(1000))
	neighbour.awaitSubscription()
	const streams = 40
	for i := range streams {
		other := s.beside(fmt.Sprintf("other-%d", i))
		queue := stream()
		queue.Name = s.queue
		other.create(running, one, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.QueueName, spec.Queues = "", []scaledjobv1.Queue{queue}
		})
	}
	s.Eventually(s.jobsEver).Should(Equal(streams))
	ctx, done := t.Context(), make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			if s.redis.Client().XAdd(ctx, &redis.XAddArgs{Stream: s.queue, Values: []any{"message", "x"}}).Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	const pushes = 20
	took := make([]time.Duration, pushes)
	for i := range pushes {
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		neighbour.push(1)
		s.Eventually(s.jobsEver).WithPolling(time.Millisecond).Should(Equal(streams + i + 1))
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	s.Expect(took[pushes/2]).To(BeNumerically("<", 300*time.Millisecond), "alone it is 7 ms")
	<-done
}
