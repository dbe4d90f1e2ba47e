// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// allTypes are the flags by which Redis announces the growth of keys of every type.
func allTypes(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.New(t, redistest.Options{Events: allEvents})
}

// withQueues counts these keys, which are named after the namespace where the name is empty, and looks at them only if
// asked to.
func (s *scaledJob) withQueues(queues ...scaledjobv1.Queue) sjtest.Change {
	for i := range queues {
		queues[i].Name = s.Queue + queues[i].Name
	}
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.QueueName, spec.Queues, spec.PollingIntervalSeconds = "", queues, sjtest.Never
	}
}

// None of the messages waits for a look: each command is announced. A key of another type is reported until it is gone.
func TestMessagesOfEveryKindGetTheirJobsAtOnce(t *testing.T) {
	t.Parallel()
	server := allTypes(t)
	for name, kind := range sjtest.QueueKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, server)
			s.create(s.withQueues(kind.Queue))
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
			s.awaitQuiet()
			const messages = 3
			for i := range messages {
				s.Expect(kind.Add(t.Context(), server.Client(), s.Queue, i)).To(Succeed())
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
				s.Expect(kind.Add(t.Context(), server.Client(), s.Queue, i)).To(Succeed())
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
