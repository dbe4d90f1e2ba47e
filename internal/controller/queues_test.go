// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redisconn"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// allKinds is a spec with a queue of each kind.
func allKinds() *scaledjobv1.ScaledJobSpec {
	spec := &scaledJob().Spec
	spec.QueueName = ""
	spec.Queues = []scaledjobv1.Queue{
		{Name: "list"},
		{Name: "list:busy", Role: scaledjobv1.RoleInProgress},
		{Name: "stream", Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: "first"}, Threshold: new(int64(3))},
		{Name: "stream", Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: "second"}},
		{
			Name: "sorted", Type: scaledjobv1.QueueSortedSet,
			SortedSet: &scaledjobv1.SortedSetQueue{Window: scaledjobv1.WindowDue, ScoreUnit: scaledjobv1.ScoreMilliseconds},
		},
		{Name: "set", Type: scaledjobv1.QueueSet, Role: scaledjobv1.RoleWaiting},
		{Name: "hash", Type: scaledjobv1.QueueHash},
	}
	return spec
}

func TestWhatIsReadAndListenedTo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := allKinds()
	queues := spec.AllQueues()

	source, err := sourceOf(spec, queues)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source).To(Equal(queue.Source{
		Endpoint: redisconn.Endpoint{Address: address},
		Queues: []queue.Queue{
			{Key: "list", Type: queue.List},
			{Key: "list:busy", Type: queue.List, InProgress: true},
			{Key: "stream", Type: queue.Stream, Group: "first"},
			{Key: "stream", Type: queue.Stream, Group: "second"},
			{Key: "sorted", Type: queue.SortedSet, Window: queue.Due, Unit: queue.Milliseconds},
			{Key: "set", Type: queue.Set},
			{Key: "hash", Type: queue.Hash},
		},
		CountLimit: 20*10 + 1,
	}))
	g.Expect(keysOf(queues)).To(Equal([]keyspace.Key{
		{Name: "list", Class: proof.ClassList}, {Name: "list:busy", Class: proof.ClassList}, {Name: "stream", Class: proof.ClassStream},
		{Name: "sorted", Class: proof.ClassSortedSet}, {Name: "set", Class: proof.ClassSet}, {Name: "hash", Class: proof.ClassHash},
	}))
	held := contents(queues, []queue.Count{{Waiting: 1}, {InProgress: 2}, {Waiting: 3, InProgress: 4}, {}, {}, {}, {}})
	g.Expect(held[:3]).To(Equal([]scaling.Queue{{Waiting: 1, Threshold: 10}, {InProgress: 2, Threshold: 10}, {Waiting: 3, InProgress: 4, Threshold: 3}}))
	_, err = sourceOf(&scaledjobv1.ScaledJobSpec{RedisAddress: "nowhere"}, queues)
	g.Expect(err).To(HaveOccurred())
}

func TestCountLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maximum               int32
		threshold, activation int64
		want                  int64
	}{
		"what is due for the maximum":    {maximum: 20, threshold: 10, want: 201},
		"no Job allowed":                 {maximum: 0, threshold: 10, want: 1},
		"more until anything is due":     {maximum: 2, threshold: 10, activation: 500, want: 501},
		"more than there are numbers of": {maximum: math.MaxInt32, threshold: math.MaxInt64, want: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := scaledjobv1.ScaledJobSpec{MaxReplicas: &c.maximum, Threshold: c.threshold, ActivationThreshold: c.activation}
			NewWithT(t).Expect(countLimit(&spec, spec.AllQueues())).To(Equal(c.want))
		})
	}
}

func TestPolicyOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := scaledJob().Spec
	spec.MinReplicas, spec.ActivationThreshold = 1, 7
	g.Expect(policyOf(&spec)).To(Equal(scaling.Policy{ActivationThreshold: 7, MinReplicas: 1, MaxReplicas: 20}))
	spec.QueuesCalculation = scaledjobv1.CalculateAvg
	spec.ScalingStrategy = scaledjobv1.ScalingStrategy{
		Type: scaledjobv1.StrategyCustom, Custom: &scaledjobv1.CustomStrategy{QueueLengthDeduction: 3, RunningJobPercentage: 50},
	}
	g.Expect(policyOf(&spec)).To(Equal(scaling.Policy{
		ActivationThreshold: 7, MinReplicas: 1, MaxReplicas: 20,
		Calculation: scaling.Avg, Strategy: scaling.StrategyCustom, Deduction: 3, ClaimedPercentage: 50,
	}))
}

// The words of the API are those of the decision and of the reader.
func TestWordsAgree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect([]any{scaledjobv1.StrategyDefault, scaledjobv1.StrategyAccurate, scaledjobv1.StrategyEager, scaledjobv1.StrategyCustom}).
		To(HaveExactElements(BeEquivalentTo(scaling.StrategyDefault), BeEquivalentTo(scaling.StrategyAccurate),
			BeEquivalentTo(scaling.StrategyEager), BeEquivalentTo(scaling.StrategyCustom)))
	g.Expect([]any{scaledjobv1.CalculateSum, scaledjobv1.CalculateMax, scaledjobv1.CalculateMin, scaledjobv1.CalculateAvg}).
		To(HaveExactElements(BeEquivalentTo(scaling.Sum), BeEquivalentTo(scaling.Max), BeEquivalentTo(scaling.Min), BeEquivalentTo(scaling.Avg)))
	g.Expect([]any{scaledjobv1.WindowAll, scaledjobv1.WindowDue, scaledjobv1.WindowLive}).
		To(HaveExactElements(BeEquivalentTo(queue.All), BeEquivalentTo(queue.Due), BeEquivalentTo(queue.Live)))
	g.Expect([]any{scaledjobv1.ScoreSeconds, scaledjobv1.ScoreMilliseconds, scaledjobv1.ScoreNanoseconds, scaledjobv1.ScoreBullMQ}).
		To(HaveExactElements(BeEquivalentTo(queue.Seconds), BeEquivalentTo(queue.Milliseconds),
			BeEquivalentTo(queue.Nanoseconds), BeEquivalentTo(queue.BullMQ)))
}

func TestTheStatusTellsOfEachQueue(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.QueueName = ""
	sj.Spec.Queues = []scaledjobv1.Queue{{Name: "letters"}, {Name: "letters:busy", Role: scaledjobv1.RoleInProgress}}
	w := newWorld(t, sj)
	w.queues.SetCount("letters", queue.Count{Waiting: 12})
	w.queues.SetCount("letters:busy", queue.Count{InProgress: 11})
	w.reconcile(t.Context())

	status := w.scaledJob(t.Context()).Status
	w.Expect(status.QueueDepth).To(HaveValue(BeEquivalentTo(23)))
	w.Expect(status.DesiredJobs).To(HaveValue(BeEquivalentTo(3)))
	w.Expect(status.Queues).To(Equal([]scaledjobv1.QueueStatus{
		{Name: "letters", Depth: new(int64(12))}, {Name: "letters:busy", Depth: new(int64(11))},
	}))
	w.Expect(w.scrape()["scaledjob_queue_depth"]).To(BeEquivalentTo(23), "both series")

	w.queues.SetError("letters", &redisconn.Error{Reason: redisconn.ReasonWrongType, Err: errAway})
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Queues = spec.Queues[:1] })
	w.reconcile(t.Context())
	w.Expect(w.scaledJob(t.Context()).Status.Queues).To(Equal([]scaledjobv1.QueueStatus{{Name: "letters"}}), "the depth was that of other queues")
	w.Expect(w.scrape()).NotTo(HaveKey("scaledjob_queue_depth"))
}

// A worker has to come so that the group does.
func TestAMissingGroupIsToldAndHasAJob(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.QueueName = ""
	sj.Spec.Queues = []scaledjobv1.Queue{{
		Name: "stream", Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: "workers"},
	}}
	w := newWorld(t, sj)
	w.queues.SetCount("stream", queue.Count{Waiting: 1, GroupMissing: true})
	w.reconcile(t.Context())
	w.Expect(w.names()).To(HaveLen(1))
	for _, kind := range []string{scaledjobv1.ConditionQueueConnected, scaledjobv1.ConditionReady} {
		is := w.condition(t.Context(), kind)
		w.Expect(is.Status).To(Equal(metav1.ConditionFalse), kind)
		w.Expect(is.Reason).To(Equal(scaledjobv1.ReasonConsumerGroupNotFound), kind)
	}
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReconciling).Reason).To(Equal(scaledjobv1.ReasonConsumerGroupNotFound))

	w.queues.SetCount("stream", queue.Count{Waiting: 20, InProgress: 1})
	w.reconcile(t.Context())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	w.Expect(w.names()).To(HaveLen(3))
}

func TestAnnouncesEnds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := allKinds().AllQueues()
	g.Expect(announcesEnds((&scaledJob().Spec).AllQueues())).To(BeTrue())
	g.Expect(announcesEnds(all[5:])).To(BeTrue(), "sets and hashes")
	for _, quiet := range all[1:5] {
		g.Expect(announcesEnds(append(all[:1:1], quiet))).To(BeFalse(), quiet.Name)
	}
}
