// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds every metric of the operator in one place.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

var labels = []string{"namespace", "scaledjob", "queue"}

// Metrics are the collectors. The series of a ScaledJob live as long as it does, and carry the queue that it names now.
type Metrics struct {
	depth   *prometheus.GaugeVec
	active  *prometheus.GaugeVec
	desired *prometheus.GaugeVec
	total   *prometheus.CounterVec
	errors  *prometheus.CounterVec

	mu     sync.Mutex
	queues map[types.NamespacedName]string
}

// Sample is what one pass saw and did.
type Sample struct {
	// Queue is the key of the queue.
	Queue string
	// Depth is how many messages are outstanding, and Desired how many Jobs should be active. Both are nil where they are unknown; then
	// the last known value stays.
	Depth   *int64
	Desired *int32
	// Active is how many Jobs have not finished.
	Active int32
	// Failed says that the pass met an error.
	Failed bool
}

// New makes the collectors and registers them.
func New(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		depth:   gauge("scaledjob_queue_depth", "Messages outstanding when the queue was last read."),
		active:  gauge("scaledjob_active_jobs", "Jobs that have not finished."),
		desired: gauge("scaledjob_desired_jobs", "Jobs that should be active."),
		total:   counter("scaledjob_reconcile_total", "Reconciliations of the ScaledJob."),
		errors:  counter("scaledjob_reconcile_errors_total", "Reconciliations that met an error, of Redis or of the API server."),
		queues:  map[types.NamespacedName]string{},
	}
	registry.MustRegister(m.depth, m.active, m.desired, m.total, m.errors)
	return m
}

// Failed reports a pass over a ScaledJob that could not see what it must go by.
func (m *Metrics) Failed(key types.NamespacedName, queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(m.valuesOf(key, queue), true)
}

// Observe reports one pass over a ScaledJob.
func (m *Metrics) Observe(key types.NamespacedName, sample Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.valuesOf(key, sample.Queue)
	if sample.Depth != nil {
		m.depth.WithLabelValues(values...).Set(float64(*sample.Depth))
	}
	if sample.Desired != nil {
		m.desired.WithLabelValues(values...).Set(float64(*sample.Desired))
	}
	m.active.WithLabelValues(values...).Set(float64(sample.Active))
	m.count(values, sample.Failed)
}

// valuesOf are the label values of a ScaledJob. Series that name another queue than this one go.
func (m *Metrics) valuesOf(key types.NamespacedName, queue string) []string {
	if known, has := m.queues[key]; has && known != queue {
		m.forget(key)
	}
	m.queues[key] = queue
	return []string{key.Namespace, key.Name, queue}
}

// count counts a pass. The series of errors begins at 0, so that its first rise can be seen.
func (m *Metrics) count(values []string, hasFailed bool) {
	m.total.WithLabelValues(values...).Inc()
	failed := m.errors.WithLabelValues(values...)
	if hasFailed {
		failed.Inc()
	}
}

// Forget removes the series of a ScaledJob that is gone.
func (m *Metrics) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(key)
	delete(m.queues, key)
}

func (m *Metrics) forget(key types.NamespacedName) {
	match := prometheus.Labels{"namespace": key.Namespace, "scaledjob": key.Name}
	m.depth.DeletePartialMatch(match)
	m.active.DeletePartialMatch(match)
	m.desired.DeletePartialMatch(match)
	m.total.DeletePartialMatch(match)
	m.errors.DeletePartialMatch(match)
}
