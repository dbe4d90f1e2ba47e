// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkObserve measures what a reconcile costs, and the memory of a ScaledJob's series.
func BenchmarkObserve(b *testing.B) {
	const scaledJobs = 10_000
	metrics := New(prometheus.NewRegistry())
	keys := make([]types.NamespacedName, scaledJobs)
	samples := make([]Sample, scaledJobs)
	for i := range keys {
		name := fmt.Sprint("queue-", i)
		keys[i] = types.NamespacedName{Namespace: "mail", Name: name}
		samples[i] = Sample{Queue: name, Queues: []QueueSample{{Key: name, Depth: 1}}, Read: true, Desired: new(int32(1)), LastEvent: time.Now()}
	}
	before := heap()
	for i := range keys {
		metrics.Observe(keys[i], samples[i])
		metrics.Created(keys[i], keys[i].Name, time.Millisecond)
	}
	size := float64(heap()-before) / scaledJobs
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		metrics.Observe(keys[i%scaledJobs], samples[i%scaledJobs])
		i++
	}
	b.ReportMetric(size, "B/ScaledJob")
	runtime.KeepAlive(metrics)
}

// BenchmarkScrape measures a scrape of 10,000 ScaledJobs, each of which has had a Job, as Prometheus asks for it.
func BenchmarkScrape(b *testing.B) {
	registry := prometheus.NewRegistry()
	metrics := New(registry)
	served := promhttp.HandlerFor(metrics.With(registry), promhttp.HandlerOpts{})
	conditions := []Condition{
		{"QueueConnected", "True", "Connected"},
		{"TemplateValid", "True", "Accepted"},
		{"Ready", "True", "Reconciled"},
		{"NotificationsActive", "True", "Subscribed"},
		{"ScalingLimited", "False", "NotLimited"},
	}
	for i := range 10_000 {
		name := fmt.Sprint("queue-", i)
		key := types.NamespacedName{Namespace: "mail", Name: name}
		metrics.Observe(key, Sample{
			Queue: name, Queues: []QueueSample{{Key: name, Depth: 1}}, Read: true, Desired: new(int32(1)), LastEvent: time.Now(),
			Mode: "Events", Conditions: conditions,
		})
		metrics.Created(key, name, time.Millisecond)
	}
	for name, accept := range map[string]string{
		"text":     "text/plain;version=0.0.4",
		"protobuf": "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		b.Run(name, func(b *testing.B) {
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			request.Header.Set("Accept", accept)
			request.Header.Set("Accept-Encoding", "gzip")
			b.ReportAllocs()
			for b.Loop() {
				answer := httptest.NewRecorder()
				served.ServeHTTP(answer, request)
				b.ReportMetric(float64(answer.Body.Len()), "B/scrape")
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
