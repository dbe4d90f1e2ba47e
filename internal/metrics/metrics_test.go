// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

var emails = types.NamespacedName{Namespace: "mail", Name: "emails"}

// collected are metrics, and the registry with all of them.
type collected struct {
	Gomega
	*Metrics

	registry Registry
}

// newMetrics returns the metrics of a test, which runs in parallel with others.
func newMetrics(t *testing.T) *collected {
	t.Helper()
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)
	return &collected{NewWithT(t), metrics, metrics.With(registry)}
}

// scrape returns all series with labels. The key is the name without "scaledjob_", followed by the values of the labels
// in the order of their names. The value of a histogram is its number of observations.
func (m *collected) scrape() map[string]float64 {
	series := map[string]float64{}
	for _, family := range must.Get(m.registry.Gather())(m) {
		for _, metric := range family.GetMetric() {
			name := []string{strings.TrimPrefix(family.GetName(), "scaledjob_")}
			for _, label := range metric.GetLabel() {
				name = append(name, label.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			if len(name) > 1 {
				m.Expect(series).NotTo(HaveKey(strings.Join(name, " ")), "there are two of it")
				series[strings.Join(name, " ")] = value
			}
		}
	}
	return series
}

// full is a sample in which everything is known.
func full(queue string) Sample {
	return Sample{
		Queue: queue, Queues: []QueueSample{{Key: queue, Depth: 1 << 40, NonEmptySince: time.UnixMilli(1_000_000), Oldest: time.UnixMilli(1_250_000)}}, Read: true,
		Desired: new(int32(20)), Active: 4, Pending: 3, Suspended: 2, Max: 100, Suspend: true, Mode: "Events",
		Conditions: []Condition{{"Ready", "True", "Reconciled"}}, CertificatesExpire: time.UnixMilli(2_000_000), RefusedBy: "quota",
		Pausing: true, LastEvent: time.UnixMilli(1_500_500), Missed: true, Failed: true,
	}
}

func TestAPassSetsTheSeriesOfItsScaledJob(t *testing.T) {
	m := newMetrics(t)
	m.Expect(m.scrape()).To(BeEmpty())

	m.Observe(emails, Sample{Queue: "q", Active: 1})
	m.Expect(m.scrape()).To(Equal(map[string]float64{
		"active_jobs mail q emails": 1, "pending_jobs mail q emails": 0, "suspended_jobs mail q emails": 0, "creation_pausing mail q emails": 0,
		"max_replicas mail q emails": 0, "suspend mail q emails": 0, "notifications_active mail q emails": 0,
		"reconcile_total mail q emails": 1, "reconcile_errors_total mail q emails": 0,
		"notifications_missed_total mail q emails": 0, "jobs_created_total mail q emails": 0,
		"jobs_finished_total mail succeeded q emails": 0, "jobs_finished_total mail failed q emails": 0,
	}), "an unknown depth must not appear as 0")

	m.Observe(emails, full("q"))
	m.Created(emails, "q", time.Millisecond)
	m.Created(emails, "q", 0)
	m.Finished(emails, true)
	m.Finished(emails, false)
	m.Finished(emails, false)
	series := m.scrape()
	m.Expect(series["last_read_timestamp_seconds mail q emails"]).To(BeNumerically("~", time.Now().Unix(), 60))
	delete(series, "last_read_timestamp_seconds mail q emails")
	m.Expect(series).To(Equal(map[string]float64{
		"queue_depth mail q emails": 1 << 40, "desired_jobs mail q emails": 20,
		"queue_nonempty_since_timestamp_seconds mail q emails": 1000, "queue_oldest_message_timestamp_seconds mail q emails": 1250,
		"max_replicas mail q emails": 100, "suspend mail q emails": 1,
		"mode Events mail q emails": 1, "mode Tracking mail q emails": 0, "mode Polling mail q emails": 0,
		"condition mail q Reconciled emails True Ready": 1, "creates_refused_total quota mail q emails": 1,
		"certificate_expiry_timestamp_seconds mail q emails": 2000,
		"active_jobs mail q emails":                          4, "pending_jobs mail q emails": 3, "suspended_jobs mail q emails": 2,
		"reconcile_total mail q emails": 2, "reconcile_errors_total mail q emails": 1,
		"creation_pausing mail q emails": 1, "notifications_active mail q emails": 1,
		"notifications_missed_total mail q emails":   1,
		"last_event_timestamp_seconds mail q emails": 1500.5,
		"jobs_created_total mail q emails":           2, "event_to_create_seconds mail q emails": 1,
		"jobs_finished_total mail succeeded q emails": 1, "jobs_finished_total mail failed q emails": 2,
	}))

	m.Observe(emails, Sample{Queue: "q", Active: 4})
	m.Expect(m.scrape()).NotTo(HaveKey("queue_depth mail q emails"), "it is not known any more")
	m.Expect(m.scrape()).To(HaveKeyWithValue("desired_jobs mail q emails", 20.0), "the last known number is kept")
}

// A reconcile that could not count the Jobs reports nothing about them.
func TestAPassThatSawNothing(t *testing.T) {
	m := newMetrics(t)
	m.Failed(emails, "q")
	m.Expect(m.scrape()).To(Equal(map[string]float64{
		"reconcile_total mail q emails": 1, "reconcile_errors_total mail q emails": 1,
		"notifications_missed_total mail q emails": 0, "jobs_created_total mail q emails": 0,
		"jobs_finished_total mail succeeded q emails": 0, "jobs_finished_total mail failed q emails": 0,
	}))
}

// A spec that can't be used says so in its conditions.
func TestAMalformedSpec(t *testing.T) {
	m := newMetrics(t)
	m.Malformed(emails, "q", true, []Condition{{Type: "Ready", Status: "False", Reason: "InvalidSpec"}})
	m.Expect(m.scrape()).To(Equal(map[string]float64{
		"reconcile_total mail q emails": 1, "reconcile_errors_total mail q emails": 1, "suspend mail q emails": 1,
		"notifications_missed_total mail q emails": 0, "jobs_created_total mail q emails": 0,
		"jobs_finished_total mail succeeded q emails": 0, "jobs_finished_total mail failed q emails": 0,
		"condition mail q InvalidSpec emails False Ready": 1,
	}))
}

// Without the label, the keys of a ScaledJob are added up.
func TestWithoutQueues(t *testing.T) {
	m := newMetrics(t)
	m.WithoutQueues()
	early, late := time.UnixMilli(1_000_000), time.UnixMilli(2_000_000)
	m.Observe(emails, Sample{Queues: []QueueSample{
		{Key: "a", Depth: 3, NonEmptySince: late, Oldest: late}, {Key: "b", Depth: 4, NonEmptySince: early}, {Key: "c"},
	}})
	series := m.scrape()
	m.Expect(series).To(HaveKeyWithValue("queue_depth mail  emails", 7.0))
	m.Expect(series).To(HaveKeyWithValue("queue_nonempty_since_timestamp_seconds mail  emails", 1000.0))
	m.Expect(series).To(HaveKeyWithValue("queue_oldest_message_timestamp_seconds mail  emails", 2000.0))
}

// The series of a previous queue would never change again.
func TestSeriesNameTheQueueOfNow(t *testing.T) {
	m := newMetrics(t)
	m.Observe(emails, full("old"))
	m.Created(emails, "old", time.Second)
	m.Finished(emails, true)
	m.Failed(emails, "new")
	for name := range m.scrape() {
		m.Expect(name).To(ContainSubstring(" new "))
	}
}

func TestForgottenScaledJobsLeaveNothing(t *testing.T) {
	m := newMetrics(t)
	for _, neighbour := range []types.NamespacedName{{Namespace: "mail", Name: "letters"}, {Namespace: "other", Name: "emails"}} {
		m.Observe(neighbour, full("q"))
	}
	before := m.scrape()
	m.Observe(emails, full("q"))
	m.Created(emails, "q", time.Second)
	m.Finished(emails, true)
	m.Finished(emails, false)

	m.Forget(emails)
	m.Forget(emails)
	m.Finished(emails, true) // The events of its last Jobs arrive later.
	m.Expect(m.scrape()).To(Equal(before))
	m.Expect(m.all).To(HaveLen(2))
}

func TestSeriesOfServers(t *testing.T) {
	m := newMetrics(t)
	m.Subscribed("redis:6379", 0, false)
	received := m.Received("redis:6379")
	received()
	received()
	m.Ended("redis:6379", "AuthFailed")
	m.Ended("redis:6379", "Unreachable")
	m.Subscribed("other:6379", 0, true)
	m.Expect(m.scrape()).To(Equal(map[string]float64{
		"watcher_up 0 redis:6379": 0, "watcher_up 0 other:6379": 1, "notifications_received_total redis:6379": 2,
		"redis_reconnects_total redis:6379 AuthFailed": 1, "redis_reconnects_total redis:6379 Unreachable": 1,
	}))
	m.Left("redis:6379")
	m.Expect(m.scrape()).To(Equal(map[string]float64{"watcher_up 0 other:6379": 1}))
}

func TestSeriesWithoutLabels(t *testing.T) {
	m := newMetrics(t)
	m.Coalesced()
	m.Read(time.Millisecond)
	values := map[string]float64{}
	for _, family := range must.Get(m.registry.Gather())(m) {
		metric := family.GetMetric()[0]
		values[family.GetName()] = metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum()
	}
	m.Expect(values).To(Equal(map[string]float64{
		"scaledjob_notifications_coalesced_total": 1, "scaledjob_queue_read_seconds": 0.001,
	}))
}

func TestParkedRequests(t *testing.T) {
	m := newMetrics(t)
	m.Parked("mail", 3)
	m.Expect(m.scrape()).To(Equal(map[string]float64{"reconciles_parked mail": 3}))
	m.Parked("mail", 0)
	m.Expect(m.scrape()).To(BeEmpty(), "a namespace without them has no series")
}

func TestQueueLabel(t *testing.T) {
	t.Parallel()
	long, other := strings.Repeat("k", 1023)+"a", strings.Repeat("k", 1023)+"b"
	for key, want := range map[string]string{
		"jobs:high":          "jobs:high",
		`say "hi" \o/`:       `say "hi" \\o/`,
		"grüße 📦":            "grüße 📦",
		"a\x00\n\xff\u202eb": `a\x00\n\xff\u202eb`,
	} {
		NewWithT(t).Expect(queueLabel(key)).To(Equal(want))
	}
	g := NewWithT(t)
	g.Expect(len(queueLabel(long))).To(BeNumerically("<=", maxQueueLabel))
	g.Expect(queueLabel(long)).To(HavePrefix("kkkk"))
	g.Expect(queueLabel(long)).NotTo(Equal(queueLabel(other)), "each queue has its own series")
	g.Expect(queueLabel(strings.Repeat("\x00", 1024))).To(MatchRegexp(`^[\x20-\x7e…]+$`))
	g.Expect(strings.ToValidUTF8(queueLabel(strings.Repeat("ü", 512)), "?")).NotTo(ContainSubstring("?"))
}

func TestConcurrentUse(t *testing.T) {
	m := newMetrics(t)
	var passes sync.WaitGroup
	for i := range 4 {
		key := types.NamespacedName{Namespace: "mail", Name: fmt.Sprint(i % 2)}
		passes.Go(func() {
			for i := range 100 {
				m.Observe(key, full(fmt.Sprint(i%2)))
				m.Created(key, "0", time.Second)
				m.Finished(key, true)
				m.Received("redis:6379")()
				m.Left("redis:6379")
				if _, err := m.registry.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	passes.Wait()
	m.Forget(types.NamespacedName{Namespace: "mail", Name: "0"})
	m.Forget(types.NamespacedName{Namespace: "mail", Name: "1"})
	m.Expect(m.scrape()).To(BeEmpty())
}
