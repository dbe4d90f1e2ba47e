// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics defines all metrics of the operator: those of ScaledJobs in scaledjobs.go and
// collector.go, those of Redis servers in redis.go. The series of a ScaledJob or a server are removed together with it.
package metrics

import (
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the collectors. All methods are safe for concurrent use.
type Metrics struct {
	redis     redis
	reads     prometheus.Histogram
	coalesced prometheus.Counter
	parked    *prometheus.GaugeVec
	// connections returns the number of connections to each server; nil if nothing does.
	connections func() map[string]int
	// withoutQueues leaves the label queue empty.
	withoutQueues bool

	mu sync.Mutex
	// all are the series of the ScaledJobs.
	all map[types.NamespacedName]*series
}

// Histogram buckets, in seconds.
var (
	reactionBuckets = [...]float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 30}
	readBuckets     = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
)

// WithoutQueues leaves the label queue empty, which to Prometheus is as if there were none. The values of the keys of a
// ScaledJob are then added up. It must be called before the first reconcile.
func (m *Metrics) WithoutQueues() { m.withoutQueues = true }

// New creates the collectors and registers them, except the metrics of ScaledJobs: see With.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		redis: newRedis(),
		reads: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scaledjob_queue_read_seconds", Help: "Duration of successful reads of queues.",
			Buckets: readBuckets,
		}),
		coalesced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scaledjob_notifications_coalesced_total",
			Help: "Notifications, and changes of tracked keys, that started no reconcile of their own, because one was already pending.",
		}),
		parked: gauge("scaledjob_reconciles_parked",
			"Requests for reconciles that wait because reconciles of the namespace have its share of the concurrent reconciles. workqueue_depth does not count "+
				"them. Absent while none waits.", "namespace"),
		all: map[types.NamespacedName]*series{},
	}
	registry.MustRegister(m.reads, m.coalesced, m.parked, redisConnections{m})
	registry.MustRegister(m.redis.collectors()...)
	return m
}

// Process registers the metrics of this process: its version, and whether it leads, which leads reports.
func (m *Metrics) Process(registry prometheus.Registerer, version string, leads func() bool) {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "scaledjob_build_info", Help: "The version of the operator; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(build, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scaledjob_leader", Help: "1 while this replica is the leader, which creates the Jobs, 0 on standby.",
	}, func() float64 { return indicator(leads()) }))
}

// Coalesced counts a notification that caused no wake-up of its own.
func (m *Metrics) Coalesced() { m.coalesced.Inc() }

// Parked records how many requests of a namespace wait for its share of the workers.
func (m *Metrics) Parked(namespace string, requests int) {
	if requests == 0 {
		m.parked.DeleteLabelValues(namespace)
		return
	}
	m.parked.WithLabelValues(namespace).Set(float64(requests))
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
