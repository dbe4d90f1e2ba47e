// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

var emails = types.NamespacedName{Namespace: "mail", Name: "emails"}

// scrape reads all series, each under its name and the values of its labels namespace, scaledjob and queue.
func scrape(g Gomega, registry prometheus.Gatherer) map[string]float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	series := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values := map[string]string{}
			for _, label := range metric.GetLabel() {
				values[label.GetName()] = label.GetValue()
			}
			key := family.GetName() + " " + values["namespace"] + "/" + values["scaledjob"] + "/" + values["queue"]
			series[key] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return series
}

func TestObserve(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)
	g.Expect(scrape(g, registry)).To(BeEmpty())

	metrics.Observe(emails, Sample{Queue: "q", Depth: new(int64(1 << 40)), Desired: new(int32(20)), Active: 4})
	g.Expect(scrape(g, registry)).To(Equal(map[string]float64{
		"scaledjob_queue_depth mail/emails/q":            1 << 40,
		"scaledjob_active_jobs mail/emails/q":            4,
		"scaledjob_desired_jobs mail/emails/q":           20,
		"scaledjob_reconcile_total mail/emails/q":        1,
		"scaledjob_reconcile_errors_total mail/emails/q": 0,
	}))

	metrics.Observe(emails, Sample{Queue: "q", Depth: new(int64(0)), Desired: new(int32(0)), Active: 0, Failed: true})
	g.Expect(scrape(g, registry)).To(Equal(map[string]float64{
		"scaledjob_queue_depth mail/emails/q":            0,
		"scaledjob_active_jobs mail/emails/q":            0,
		"scaledjob_desired_jobs mail/emails/q":           0,
		"scaledjob_reconcile_total mail/emails/q":        2,
		"scaledjob_reconcile_errors_total mail/emails/q": 1,
	}))
}

// An unknown depth is not 0, and must not look like it.
func TestObserveUnknownDepth(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)

	metrics.Observe(emails, Sample{Queue: "q", Active: 4, Failed: true})
	g.Expect(scrape(g, registry)).To(Equal(map[string]float64{
		"scaledjob_active_jobs mail/emails/q":            4,
		"scaledjob_reconcile_total mail/emails/q":        1,
		"scaledjob_reconcile_errors_total mail/emails/q": 1,
	}))

	metrics.Observe(emails, Sample{Queue: "q", Depth: new(int64(7)), Desired: new(int32(1)), Active: 4})
	metrics.Observe(emails, Sample{Queue: "q", Active: 3, Failed: true})
	g.Expect(scrape(g, registry)).To(And(
		HaveKeyWithValue("scaledjob_queue_depth mail/emails/q", 7.0),
		HaveKeyWithValue("scaledjob_desired_jobs mail/emails/q", 1.0),
		HaveKeyWithValue("scaledjob_active_jobs mail/emails/q", 3.0),
	))
}

// A pass that could not even count the Jobs says nothing about them.
func TestFailed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)

	metrics.Failed(emails, "q")
	g.Expect(scrape(g, registry)).To(Equal(map[string]float64{
		"scaledjob_reconcile_total mail/emails/q":        1,
		"scaledjob_reconcile_errors_total mail/emails/q": 1,
	}))

	metrics.Observe(emails, Sample{Queue: "q", Depth: new(int64(7)), Desired: new(int32(1)), Active: 1})
	metrics.Failed(emails, "q")
	g.Expect(scrape(g, registry)).To(Equal(map[string]float64{
		"scaledjob_queue_depth mail/emails/q":            7,
		"scaledjob_active_jobs mail/emails/q":            1,
		"scaledjob_desired_jobs mail/emails/q":           1,
		"scaledjob_reconcile_total mail/emails/q":        3,
		"scaledjob_reconcile_errors_total mail/emails/q": 2,
	}))

	metrics.Failed(emails, "new")
	g.Expect(scrape(g, registry)).To(HaveLen(2), "the series of the old queue are gone")
}

func TestObserveAnotherQueue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)
	metrics.Observe(emails, Sample{Queue: "old", Depth: new(int64(7)), Desired: new(int32(1)), Active: 1})

	metrics.Observe(emails, Sample{Queue: "new", Active: 1})

	g.Expect(scrape(g, registry)).To(Equal(map[string]float64{
		"scaledjob_active_jobs mail/emails/new":            1,
		"scaledjob_reconcile_total mail/emails/new":        1,
		"scaledjob_reconcile_errors_total mail/emails/new": 0,
	}), "series of the old queue would stand still for ever")
}

func TestForget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)
	sample := Sample{Queue: "q", Depth: new(int64(7)), Desired: new(int32(1)), Active: 1}
	neighbours := []types.NamespacedName{{Namespace: "mail", Name: "letters"}, {Namespace: "other", Name: "emails"}}
	for _, neighbour := range neighbours {
		metrics.Observe(neighbour, sample)
	}
	before := scrape(g, registry)
	metrics.Observe(emails, sample)

	metrics.Forget(emails)

	g.Expect(scrape(g, registry)).To(Equal(before))
	g.Expect(metrics.queues).To(HaveLen(len(neighbours)))
	metrics.Forget(emails)
	g.Expect(scrape(g, registry)).To(Equal(before))
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	metrics := New(registry)
	names := []string{"a", "b"}

	var passes sync.WaitGroup
	for _, name := range names {
		key := types.NamespacedName{Namespace: "mail", Name: name}
		passes.Go(func() {
			for i := range 100 {
				metrics.Observe(key, Sample{Queue: names[i%2], Active: 1})
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
			}
			metrics.Forget(key)
		})
	}
	passes.Wait()

	g.Expect(scrape(g, registry)).To(BeEmpty())
}
