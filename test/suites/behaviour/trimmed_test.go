// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// Entries that are pending, but were trimmed, can't be processed by any worker. The message tells how to remove them.
func TestEntriesThatWereTrimmedGetNoJob(t *testing.T) {
	t.Parallel()
	s := newScaledJobOn(t, allTypes(t))
	client := s.redis.Client()
	for range 5 {
		s.Expect(addEntry(t.Context(), client, s.Queue, 0)).To(Succeed())
	}
	s.Expect(client.XGroupCreate(t.Context(), s.Queue, group, "0").Err()).To(Succeed())
	s.Expect(client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: group, Consumer: "dead", Streams: []string{s.Queue, ">"}, Count: 5,
	}).Err()).To(Succeed())
	s.Expect(client.XTrimMaxLen(t.Context(), s.Queue, 2).Err()).To(Succeed())
	s.create(s.of(stream()), scene.Polling(1), running)
	s.Eventually(s.jobsEver).Should(Equal(2), "for the entries that are there")
	message := func() string { return s.condition(scaledjobv1.ConditionQueueConnected) }
	s.Eventually(message).Should(ContainSubstring("XAUTOCLAIM"))
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionTrue, scaledjobv1.ReasonConnected)

	s.Expect(client.XTrimMaxLen(t.Context(), s.Queue, 0).Err()).To(Succeed())
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(0))))
	s.Expect(message()).To(ContainSubstring("XAUTOCLAIM"))

	s.Expect(client.Do(t.Context(), "XAUTOCLAIM", s.Queue, group, "any", 9999999999, 0).Err()).To(Succeed())
	s.Eventually(message).ShouldNot(ContainSubstring("XAUTOCLAIM"))
	s.Expect(s.jobsEver()).To(Equal(2))
}
