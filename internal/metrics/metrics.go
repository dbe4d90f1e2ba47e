// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds every metric of the operator in one place: those of ScaledJobs in scaledjobs.go, those of Redis servers in
// redis.go. The series of a ScaledJob or a server live as long as it does.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the collectors. All methods are safe for concurrent use.
type Metrics struct {
	scaledJobs scaledJobs
	redis      redis
	reads      prometheus.Histogram
	coalesced  prometheus.Counter

	mu sync.Mutex
	// queues are the label values of the queues that the ScaledJobs name now.
	queues map[types.NamespacedName]string
	// depths are those of the keys whose depths are told.
	depths map[types.NamespacedName]map[string]struct{}
}

// The buckets of histograms, in seconds.
var (
	reactionBuckets = []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 30}
	readBuckets     = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
)

// New makes the collectors and registers them.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		scaledJobs: newScaledJobs(),
		redis:      newRedis(),
		reads: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scaledjob_queue_read_seconds", Help: "How long it took to read a depth, where that succeeded.", Buckets: readBuckets,
		}),
		coalesced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scaledjob_notifications_coalesced_total", Help: "Notifications that needed no wake-up of their own, since one was pending.",
		}),
		queues: map[types.NamespacedName]string{},
		depths: map[types.NamespacedName]map[string]struct{}{},
	}
	registry.MustRegister(m.reads, m.coalesced)
	registry.MustRegister(m.scaledJobs.collectors()...)
	registry.MustRegister(m.redis.collectors()...)
	return m
}

// Coalesced counts a notification that needed no wake-up of its own.
func (m *Metrics) Coalesced() { m.coalesced.Inc() }

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
