// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// lagUnknown makes a stream of which the server does not know how many entries its group was not given.
func (s *scaledJob) lagUnknown(entries int) {
	s.t.Helper()
	client := s.redis.Client()
	for range entries + 2 {
		s.Expect(addEntry(s.t.Context(), client, s.Queue, 0)).To(Succeed())
	}
	s.Expect(client.XGroupCreate(s.t.Context(), s.Queue, group, "0").Err()).To(Succeed())
	all, err := client.XRange(s.t.Context(), s.Queue, "-", "+").Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(client.XDel(s.t.Context(), s.Queue, all[1].ID, all[3].ID).Err()).To(Succeed())
	groups, err := client.Do(s.t.Context(), "XINFO", "GROUPS", s.Queue).Result()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(fmt.Sprint(groups)).To(ContainSubstring("lag:<nil>"))
}

// Entries are counted one by one as far as they make a difference. What is deducted, or shared by several queues, makes
// more of them do so.
func TestEntriesAreCountedAsFarAsTheyMakeADifference(t *testing.T) {
	t.Parallel()
	server := allTypes(t)
	for name, c := range map[string]struct {
		change func(s *scaledJob) scene.Change
		want   int
	}{
		"a deduction": {func(*scaledJob) scene.Change {
			return func(spec *scaledjobv1.ScaledJobSpec) {
				spec.ScalingStrategy = scaledjobv1.ScalingStrategy{
					Type: scaledjobv1.StrategyCustom, Custom: &scaledjobv1.CustomStrategy{QueueLengthDeduction: 5},
				}
			}
		}, 3},
		"a mean": {func(s *scaledJob) scene.Change {
			return func(spec *scaledjobv1.ScaledJobSpec) {
				for i := range 3 {
					other := fmt.Sprintf("%s:%d", s.Queue, i)
					s.Expect(server.Client().SAdd(s.t.Context(), other, "message").Err()).To(Succeed())
					spec.Queues = append(spec.Queues, scaledjobv1.Queue{Name: other, Type: scaledjobv1.QueueSet})
				}
				spec.QueuesCalculation = scaledjobv1.CalculateAvg
			}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, server)
			s.lagUnknown(20)
			s.create(s.of(stream()), running, scene.AtMost(3), c.change(s))
			s.expectJobsEver(c.want)
		})
	}
}
