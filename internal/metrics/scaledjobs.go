// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// The outcomes of a Job that has finished.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
)

// scaledJobs are the metrics of ScaledJobs, which are labelled by namespace, name and queue.
type scaledJobs struct {
	depth     *prometheus.GaugeVec
	active    *prometheus.GaugeVec
	pending   *prometheus.GaugeVec
	desired   *prometheus.GaugeVec
	pausing   *prometheus.GaugeVec
	events    *prometheus.GaugeVec
	lastRead  *prometheus.GaugeVec
	lastEvent *prometheus.GaugeVec
	passes    *prometheus.CounterVec
	failures  *prometheus.CounterVec
	missed    *prometheus.CounterVec
	created   *prometheus.CounterVec
	finished  *prometheus.CounterVec
	reaction  *prometheus.HistogramVec
}

func newScaledJobs() scaledJobs {
	labels := []string{"namespace", "scaledjob", "queue"}
	return scaledJobs{
		depth:     gauge("scaledjob_queue_depth", "Messages outstanding when the queue was last read.", labels...),
		active:    gauge("scaledjob_active_jobs", "Jobs that have not finished.", labels...),
		pending:   gauge("scaledjob_pending_jobs", "Jobs that have not finished and have no ready Pod.", labels...),
		desired:   gauge("scaledjob_desired_jobs", "Jobs that should be active.", labels...),
		pausing:   gauge("scaledjob_creation_pausing", "1 while creating Jobs pauses, as Jobs come to nothing or are refused.", labels...),
		events:    gauge("scaledjob_notifications_active", "1 in mode Events, 0 in mode Polling.", labels...),
		lastRead:  gauge("scaledjob_last_read_timestamp_seconds", "When the depth was last read.", labels...),
		lastEvent: gauge("scaledjob_last_event_timestamp_seconds", "When Redis last announced that the queue grew.", labels...),
		passes:    counter("scaledjob_reconcile_total", "Reconciliations of the ScaledJob.", labels...),
		failures:  counter("scaledjob_reconcile_errors_total", "Reconciliations that met an error, of Redis or of the API server.", labels...),
		missed:    counter("scaledjob_notifications_missed_total", "Times that the queue grew and no notification told of it.", labels...),
		created:   counter("scaledjob_jobs_created_total", "Jobs created.", labels...),
		finished:  counter("scaledjob_jobs_finished_total", "Jobs that have finished, by how.", append(labels, "outcome")...),
		reaction: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scaledjob_event_to_create_seconds",
			Help:    "From the first notification that was not yet acted on until a Job it asked for was created.",
			Buckets: reactionBuckets,
		}, labels),
	}
}

func (s *scaledJobs) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{s.active, s.pending, s.desired, s.pausing, s.events, s.lastRead, s.lastEvent}
}

func (s *scaledJobs) counters() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{s.passes, s.failures, s.missed, s.created}
}

func (s *scaledJobs) collectors() []prometheus.Collector {
	all := []prometheus.Collector{s.depth, s.finished, s.reaction}
	for _, vector := range s.gauges() {
		all = append(all, vector)
	}
	for _, vector := range s.counters() {
		all = append(all, vector)
	}
	return all
}

// forget removes the series with these label values.
func (s *scaledJobs) forget(values []string) {
	for _, vector := range s.gauges() {
		vector.DeleteLabelValues(values...)
	}
	for _, vector := range s.counters() {
		vector.DeleteLabelValues(values...)
	}
	s.reaction.DeleteLabelValues(values...)
	for _, outcome := range []string{outcomeSucceeded, outcomeFailed} {
		s.finished.DeleteLabelValues(append(values, outcome)...)
	}
}

// Sample is what one pass saw and did.
type Sample struct {
	// Queue is the key of the queue, and empty where there are several.
	Queue string
	// Depths are how many messages are outstanding, by key, as they were last read; Read says that this was now. They stay as they are where
	// there are none.
	Depths map[string]int64
	Read   bool
	// Desired is how many Jobs should be active. It is nil where that is unknown; then the last known value stays.
	Desired *int32
	// Active is how many Jobs have not finished, and Pending how many of those have no ready Pod.
	Active, Pending int32
	// Pausing says that creating Jobs pauses, or will again if there is no progress.
	Pausing bool
	// Events says that growth of the queue is announced, and LastEvent when it last was; zero if never.
	Events    bool
	LastEvent time.Time
	// Missed says that growth of the queue was not announced.
	Missed bool
	// Failed says that the pass met an error.
	Failed bool
}

// Failed reports a pass over a ScaledJob that could not see what it must go by.
func (m *Metrics) Failed(key types.NamespacedName, queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(m.valuesOf(key, queue), true)
}

// Read reports how long it took to read a depth.
func (m *Metrics) Read(took time.Duration) { m.reads.Observe(took.Seconds()) }

// Observe reports one pass over a ScaledJob.
func (m *Metrics) Observe(key types.NamespacedName, sample Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.valuesOf(key, sample.Queue)
	s := &m.scaledJobs
	if sample.Depths != nil {
		m.setDepths(key, sample.Depths)
	}
	if sample.Read {
		s.lastRead.WithLabelValues(values...).SetToCurrentTime()
	}
	if sample.Desired != nil {
		s.desired.WithLabelValues(values...).Set(float64(*sample.Desired))
	}
	s.active.WithLabelValues(values...).Set(float64(sample.Active))
	s.pending.WithLabelValues(values...).Set(float64(sample.Pending))
	s.pausing.WithLabelValues(values...).Set(indicator(sample.Pausing))
	s.events.WithLabelValues(values...).Set(indicator(sample.Events))
	if !sample.LastEvent.IsZero() {
		s.lastEvent.WithLabelValues(values...).Set(float64(sample.LastEvent.UnixMilli()) / 1000)
	}
	if sample.Missed {
		s.missed.WithLabelValues(values...).Inc()
	}
	m.count(values, sample.Failed)
}

// setDepths sets the depth of each key, and removes the series of keys that are not among them.
func (m *Metrics) setDepths(key types.NamespacedName, depths map[string]int64) {
	now := make(map[string]struct{}, len(depths))
	for queue, depth := range depths {
		label := queueLabel(queue)
		now[label] = struct{}{}
		m.scaledJobs.depth.WithLabelValues(key.Namespace, key.Name, label).Set(float64(depth))
	}
	for label := range m.depths[key] {
		if _, stays := now[label]; !stays {
			m.scaledJobs.depth.DeleteLabelValues(key.Namespace, key.Name, label)
		}
	}
	m.depths[key] = now
}

// indicator is 1 for true and 0 for false.
func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// count counts a pass. Series of counters begin at 0, so that their first rise can be seen.
func (m *Metrics) count(values []string, hasFailed bool) {
	for _, vector := range m.scaledJobs.counters() {
		vector.WithLabelValues(values...)
	}
	m.scaledJobs.passes.WithLabelValues(values...).Inc()
	if hasFailed {
		m.scaledJobs.failures.WithLabelValues(values...).Inc()
	}
}

// Created reports a Job that was created, and how long after the notification that asked for it; zero if none did.
func (m *Metrics) Created(key types.NamespacedName, queue string, reaction time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.valuesOf(key, queue)
	m.scaledJobs.created.WithLabelValues(values...).Inc()
	if reaction > 0 {
		m.scaledJobs.reaction.WithLabelValues(values...).Observe(reaction.Seconds())
	}
}

// Finished reports a Job that has finished. One of a ScaledJob that no pass was made over is not counted.
func (m *Metrics) Finished(key types.NamespacedName, succeeded bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	queue, known := m.queues[key]
	if !known {
		return
	}
	outcome := outcomeFailed
	if succeeded {
		outcome = outcomeSucceeded
	}
	m.scaledJobs.finished.WithLabelValues(key.Namespace, key.Name, queue, outcome).Inc()
}

// valuesOf are the label values of a ScaledJob. Series that name another queue than this one go.
func (m *Metrics) valuesOf(key types.NamespacedName, queue string) []string {
	label := queueLabel(queue)
	if known, has := m.queues[key]; has && known != label {
		m.scaledJobs.forget([]string{key.Namespace, key.Name, known})
		m.setDepths(key, nil)
	}
	m.queues[key] = label
	return []string{key.Namespace, key.Name, label}
}

// Forget removes the series of a ScaledJob that is gone.
func (m *Metrics) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if label, known := m.queues[key]; known {
		m.scaledJobs.forget([]string{key.Namespace, key.Name, label})
		delete(m.queues, key)
		m.setDepths(key, nil)
		delete(m.depths, key)
	}
}
