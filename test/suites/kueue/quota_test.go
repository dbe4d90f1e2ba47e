// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// quotaOf is the quota of most tests.
const quotaOf = 5

// beyond says that more Jobs ran at a time than the quota allows, or nothing.
func (s *stage) beyond(quota int) string {
	if most := s.Jobs.MostRunning(); most > quota {
		return fmt.Sprintf("%d Jobs ran at a time, where the quota allows %d", most, quota)
	}
	return ""
}

func TestTheQuotaBoundsWhatRunsAndEachMessageHasOneJob(t *testing.T) {
	const messages = 20
	for name, changes := range skip.AllBut(t, map[string][]sjtest.Change{
		"all Jobs wait": nil,
		"few Jobs wait": {pendingAtMost(quotaOf)},
	}, "few Jobs wait") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.quota(quotaOf)
			s.create(changes...)
			s.serve(messages, quotaOf)
			s.Expect(s.beyond(quotaOf)).To(BeEmpty())
		})
	}
}

// The negative control: without the label of a LocalQueue, the same count of the same Jobs fails.
func TestControlJobsWithoutAQueue(t *testing.T) {
	t.Parallel()
	const messages = 20
	s := newStage(t)
	s.quota(quotaOf)
	s.create(labelled(nil))
	s.serve(messages, messages)
	s.Expect(s.beyond(quotaOf)).To(Equal("20 Jobs ran at a time, where the quota allows 5"))
}

func TestJobsWaitForTheirLocalQueue(t *testing.T) {
	skip.UnderShort(t, "the suite why tests the condition of suspended Jobs without Kueue")
	t.Parallel()
	s := newStage(t)
	s.create()
	s.Push(2)
	s.expectSuspended(2, 2)
	message := s.expectLimit(metav1.ConditionTrue, scaledjobv1.ReasonJobsSuspended)
	s.Expect(message).To(And(ContainSubstring("LocalQueue"), ContainSubstring("--namespace="+s.Namespace)))
	s.quota(quotaOf)
	s.expectWorking(2)
	s.expectSuspended(0, 2)
	s.expectLimit(metav1.ConditionFalse, scaledjobv1.ReasonNotLimited)
	s.finishAll()
	s.expectDone(2)
}

func TestTheSampleRunsFiveJobsAtATime(t *testing.T) {
	skip.UnderShort(t, "TestTheQuotaBoundsWhatRunsAndEachMessageHasOneJob is the same with a ScaledJob of the test")
	t.Parallel()
	const messages = 8
	sample, err := os.ReadFile("../../../config/samples/kueue.yaml")
	s := newStageOf(t, metav1.NamespaceDefault, "renderings", "renderings")
	s.Expect(err).NotTo(HaveOccurred())
	s.apply("%s", strings.ReplaceAll(string(sample), "redis.default.svc.cluster.local:6379", redis.Addr()))
	s.Object = s.Get()
	t.Cleanup(func() { s.Expect(s.ScaledJob.Delete(context.WithoutCancel(t.Context()))).To(Succeed()) })
	s.staff()
	s.serve(messages, quotaOf)
	s.Expect(s.beyond(quotaOf)).To(BeEmpty())
}
