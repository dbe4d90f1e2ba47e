// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/scaling"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

const address = "redis.mail.svc:6379"

// oneList returns a spec with one list, ten messages per Job, and at most 20 Jobs.
func oneList() *scaledjobv1.ScaledJobSpec {
	return &scaledjobv1.ScaledJobSpec{QueueName: "emails", RedisAddress: address, Threshold: 10, MaxReplicas: new(int32(20))}
}

// allKinds returns a spec with one queue of each kind.
func allKinds() *scaledjobv1.ScaledJobSpec {
	spec := oneList()
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

	source, err := sourceOf("team", spec, queues)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source).To(Equal(queue.Source{
		Endpoint: auth.Endpoint{Address: address}, Tenant: "team",
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
	g.Expect(keysOf(3, queues)).To(Equal([]keyspace.Key{
		{Database: 3, Name: "list", Class: verify.ClassList},
		{Database: 3, Name: "list:busy", Class: verify.ClassList, Final: true},
		{Database: 3, Name: "stream", Class: verify.ClassStream},
		{Database: 3, Name: "sorted", Class: verify.ClassSortedSet},
		{Database: 3, Name: "set", Class: verify.ClassSet},
		{Database: 3, Name: "hash", Class: verify.ClassHash},
	}))
	held := (&Resolved{Queues: queues}).Contents(queue.Counts{{Waiting: 1}, {InProgress: 2}, {Waiting: 3, InProgress: 4}, {}, {}, {}, {}})
	g.Expect(held[:3]).
		To(Equal([]scaling.Queue{{Waiting: 1, Threshold: 10}, {InProgress: 2, Threshold: 10}, {Waiting: 3, InProgress: 4, Threshold: 3}}))
	_, err = sourceOf("team", &scaledjobv1.ScaledJobSpec{RedisAddress: "nowhere"}, queues)
	g.Expect(err).To(HaveOccurred())
}

func TestCountLimit(t *testing.T) {
	type row struct {
		maximum               int32
		threshold, activation int64
		want                  int64
	}
	bubble.Each(t, map[string]row{
		"what is due for the maximum":    {maximum: 20, threshold: 10, want: 201},
		"no Job allowed":                 {maximum: 0, threshold: 10, want: 1},
		"a threshold of an older CRD":    {maximum: 20, threshold: -1, want: 21},
		"more until anything is due":     {maximum: 2, threshold: 10, activation: 500, want: 501},
		"more than there are numbers of": {maximum: math.MaxInt32, threshold: math.MaxInt64, want: math.MaxInt64},
	}, func(_ *testing.T, g Gomega, c row) {
		spec := scaledjobv1.ScaledJobSpec{MaxReplicas: &c.maximum, Threshold: c.threshold, ActivationThreshold: c.activation}
		g.Expect(countLimit(&spec, spec.AllQueues())).To(Equal(c.want))
	})
}

// Some messages may be deducted, and a mean may be over many queues.
func TestCountLimitOfWhatIsTakenOff(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := oneList()
	spec.ScalingStrategy.Custom = &scaledjobv1.CustomStrategy{QueueLengthDeduction: 5}
	g.Expect(countLimit(spec, spec.AllQueues())).To(Equal(int64(25*10 + 1)))
	spec.ScalingStrategy.Custom.QueueLengthDeduction = math.MaxInt64
	g.Expect(countLimit(spec, spec.AllQueues())).To(Equal(int64(math.MaxInt64)))
	spec = allKinds()
	spec.QueuesCalculation = scaledjobv1.CalculateAvg
	g.Expect(countLimit(spec, spec.AllQueues())).To(Equal(int64(7*20*10 + 1)))
}

// The constants of the API equal those of the reader.
func TestWordsAgree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect([]any{scaledjobv1.WindowAll, scaledjobv1.WindowDue, scaledjobv1.WindowLive}).
		To(HaveExactElements(BeEquivalentTo(queue.All), BeEquivalentTo(queue.Due), BeEquivalentTo(queue.Live)))
	g.Expect([]any{scaledjobv1.ScoreSeconds, scaledjobv1.ScoreMilliseconds, scaledjobv1.ScoreNanoseconds, scaledjobv1.ScoreBullMQ}).
		To(HaveExactElements(BeEquivalentTo(queue.Seconds), BeEquivalentTo(queue.Milliseconds),
			BeEquivalentTo(queue.Nanoseconds), BeEquivalentTo(queue.BullMQ)))
}

func TestReportsProgress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := allKinds().AllQueues()
	g.Expect((&Resolved{Queues: all[2:4]}).ReportsProgress()).To(BeTrue(), "consumer groups of a stream")
	g.Expect((&Resolved{Queues: all[1:4]}).ReportsProgress()).To(BeFalse(), "one of the queues is a list")
	g.Expect((&Resolved{Queues: oneList().AllQueues()}).ReportsProgress()).To(BeFalse())
}

// The CRD stores no defaults of queues. Earlier versions of it did, and objects may hold values of none.
func TestDefaultsOfQueuesAreThoseOfExplicitValues(t *testing.T) {
	bubble.Each(t, map[string]string{
		"absent": `[{"name":"a"},{"name":"b","type":"SortedSet","sortedSet":{}},{"name":"c","type":"SortedSet","sortedSet":{"window":"Due"}}]`,
		"null": `[{"name":"a","type":null,"role":null,"threshold":null,"stream":null,"sortedSet":null},
			{"name":"b","type":"SortedSet","role":null,"sortedSet":{"window":null,"scoreUnit":null}},
			{"name":"c","type":"SortedSet","sortedSet":{"window":"Due","scoreUnit":null}}]`,
		"empty": `[{"name":"a","type":"","role":""},{"name":"b","type":"SortedSet","role":"","sortedSet":{"window":"","scoreUnit":""}},
			{"name":"c","type":"SortedSet","sortedSet":{"window":"Due","scoreUnit":""}}]`,
	}, func(_ *testing.T, g Gomega, absent string) {
		resolve := func(queues string) Resolved {
			var sj ScaledJob
			object := `{"metadata":{"namespace":"team"},"spec":{"redisAddress":"` + address + `","threshold":10,"queues":` + queues + `}}`
			g.Expect(sj.UnmarshalJSON([]byte(object))).To(Succeed())
			g.Expect(sj.SpecErr).NotTo(HaveOccurred())
			before := sj.DeepCopy()
			resolved := Resolve(&sj.ScaledJob)
			g.Expect(&sj.ScaledJob).To(Equal(before), "the cache shares the object")
			return resolved
		}
		explicit := resolve(`[{"name":"a","type":"List","role":"Waiting","threshold":10},
			{"name":"b","type":"SortedSet","role":"Waiting","threshold":10,"sortedSet":{"window":"All","scoreUnit":"s"}},
			{"name":"c","type":"SortedSet","role":"Waiting","threshold":10,"sortedSet":{"window":"Due","scoreUnit":"s"}}]`)
		g.Expect(resolve(absent)).To(Equal(explicit))
	})
}
