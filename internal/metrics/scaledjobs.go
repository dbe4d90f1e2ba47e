// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// The values of the label outcome of finished Jobs.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
)

// scaledJobs are the metrics of ScaledJobs, with the labels namespace, scaledjob and queue.
type scaledJobs struct {
	depth      *prometheus.GaugeVec
	active     *prometheus.GaugeVec
	pending    *prometheus.GaugeVec
	desired    *prometheus.GaugeVec
	pausing    *prometheus.GaugeVec
	events     *prometheus.GaugeVec
	lastRead   *prometheus.GaugeVec
	lastEvent  *prometheus.GaugeVec
	reconciles *prometheus.CounterVec
	failures   *prometheus.CounterVec
	missed     *prometheus.CounterVec
	created    *prometheus.CounterVec
	finished   *prometheus.CounterVec
	reaction   *prometheus.HistogramVec
}

func newScaledJobs() scaledJobs {
	labels := []string{"namespace", "scaledjob", "queue"}
	return scaledJobs{
		depth:    gauge("scaledjob_queue_depth", "Messages outstanding when the queue was last read.", labels...),
		active:   gauge("scaledjob_active_jobs", "Jobs that have not finished.", labels...),
		pending:  gauge("scaledjob_pending_jobs", "Jobs that have not finished and have no ready Pod.", labels...),
		desired:  gauge("scaledjob_desired_jobs", "Jobs that should be active.", labels...),
		pausing:  gauge("scaledjob_creation_pausing", "1 while the creation of Jobs is paused.", labels...),
		events:   gauge("scaledjob_notifications_active", "1 in mode Events, 0 in mode Polling.", labels...),
		lastRead: gauge("scaledjob_last_read_timestamp_seconds", "When the depth was last read.", labels...),
		lastEvent: gauge("scaledjob_last_event_timestamp_seconds",
			"When Redis last notified that the queue grew.", labels...),
		reconciles: counter("scaledjob_reconcile_total", "Reconciliations of the ScaledJob.", labels...),
		failures:   counter("scaledjob_reconcile_errors_total", "Reconciliations that met an error.", labels...),
		missed: counter("scaledjob_notifications_missed_total",
			"Growths of the queue without a notification.", labels...),
		created: counter("scaledjob_jobs_created_total", "Jobs created.", labels...),
		finished: counter("scaledjob_jobs_finished_total",
			"Finished Jobs, by outcome.", append(labels, "outcome")...),
		reaction: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scaledjob_event_to_create_seconds",
			Help:    "Time from the first notification since the last complete reconcile until a Job was created.",
			Buckets: reactionBuckets,
		}, labels),
	}
}

func (s *scaledJobs) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{s.active, s.pending, s.desired, s.pausing, s.events, s.lastRead, s.lastEvent}
}

func (s *scaledJobs) counters() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{s.reconciles, s.failures, s.missed, s.created}
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

// Sample is the result of one reconcile.
type Sample struct {
	// Queue is the key of the queue; empty if there are several.
	Queue string
	// Depths are the numbers of outstanding messages at the last read, by key; if nil, the series keep their values.
	// Read is true if the depths were read now.
	Depths map[string]int64
	Read   bool
	// Desired is the number of Jobs that should be active; if nil, the series keeps its value.
	Desired *int32
	// Active is the number of unfinished Jobs, and Pending the number of those without a ready Pod.
	Active, Pending int32
	// Pausing is true while creation is paused, or will be again if there is no progress.
	Pausing bool
	// Events is true if Redis sends notifications when the queue grows. LastEvent is when the last one arrived; zero if
	// none has.
	Events    bool
	LastEvent time.Time
	// Missed is true if the queue grew without a notification.
	Missed bool
	// Failed is true if the reconcile met an error.
	Failed bool
}

// Failed counts a failed reconcile of a ScaledJob that could not make an observation.
func (m *Metrics) Failed(key types.NamespacedName, queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(m.valuesOf(key, queue), true)
}

// Read records how long a read of a depth took.
func (m *Metrics) Read(took time.Duration) { m.reads.Observe(took.Seconds()) }

// Observe records the result of one reconcile of a ScaledJob.
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

// setDepths sets the depth of each key, and removes the series of all other keys of the ScaledJob.
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

// indicator returns 1 for true and 0 for false.
func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// count counts a reconcile. It creates all counters with the value 0, so that their first increase is visible.
func (m *Metrics) count(values []string, hasFailed bool) {
	for _, vector := range m.scaledJobs.counters() {
		vector.WithLabelValues(values...)
	}
	m.scaledJobs.reconciles.WithLabelValues(values...).Inc()
	if hasFailed {
		m.scaledJobs.failures.WithLabelValues(values...).Inc()
	}
}

// Created counts a created Job. reaction is the time since the notification that caused it; zero if none did.
func (m *Metrics) Created(key types.NamespacedName, queue string, reaction time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.valuesOf(key, queue)
	m.scaledJobs.created.WithLabelValues(values...).Inc()
	if reaction > 0 {
		m.scaledJobs.reaction.WithLabelValues(values...).Observe(reaction.Seconds())
	}
}

// Finished counts a finished Job. It ignores Jobs of ScaledJobs that were not reconciled yet.
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

// valuesOf returns the label values of a ScaledJob. If its queue has changed, valuesOf removes the series of the
// previous queue.
func (m *Metrics) valuesOf(key types.NamespacedName, queue string) []string {
	label := queueLabel(queue)
	if known, has := m.queues[key]; has && known != label {
		m.scaledJobs.forget([]string{key.Namespace, key.Name, known})
		m.setDepths(key, nil)
	}
	m.queues[key] = label
	return []string{key.Namespace, key.Name, label}
}

// Forget removes the series of a deleted ScaledJob.
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
