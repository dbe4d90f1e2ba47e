// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

// family is a metric of ScaledJobs with one value each. value reports whether a ScaledJob has it.
type family struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *series) (value float64, known bool)
}

// outcomes are the values of the label outcome of finished Jobs.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
)

var (
	scaledJobLabels = []string{"namespace", "scaledjob", "queue"}

	depthDesc = describe("scaledjob_queue_depth", "Messages outstanding when the queue was last read.")
	sinceDesc = describe("scaledjob_queue_nonempty_since_timestamp_seconds",
		"Since when the queue has had messages, which is the earliest time at which its oldest message can have come.")
	oldestDesc = describe("scaledjob_queue_oldest_message_timestamp_seconds",
		"Since when the oldest message of a stream, or of a sorted set of due messages, is outstanding.")
	finished = prometheus.NewDesc("scaledjob_jobs_finished_total", "Finished Jobs, by outcome.",
		append([]string{"outcome"}, scaledJobLabels...), nil)
	reactionDesc = describe("scaledjob_event_to_create_seconds",
		"Time from the first notification since the last complete reconcile until a Job was created.")

	families = []family{
		counted("scaledjob_active_jobs", "Jobs that have not finished.",
			func(s *series) float64 { return float64(s.active) }),
		counted("scaledjob_pending_jobs", "Jobs that have not finished and have no ready Pod.",
			func(s *series) float64 { return float64(s.pending) }),
		counted("scaledjob_suspended_jobs", "Jobs that have not finished and are suspended.",
			func(s *series) float64 { return float64(s.suspended) }),
		counted("scaledjob_creation_pausing", "1 while the creation of Jobs is paused.",
			func(s *series) float64 { return indicator(s.pausing) }),
		counted("scaledjob_notifications_active", "1 in mode Events, 0 in mode Polling.",
			func(s *series) float64 { return indicator(s.events) }),
		{describe("scaledjob_desired_jobs", "Jobs that should be active."), prometheus.GaugeValue, desired},
		at("scaledjob_last_read_timestamp_seconds", "When the depth was last read.",
			func(s *series) time.Time { return s.lastRead }),
		at("scaledjob_last_event_timestamp_seconds", "When Redis last notified that the queue grew.",
			func(s *series) time.Time { return s.lastEvent }),
		total("scaledjob_reconcile_total", "Reconciliations of the ScaledJob.",
			func(s *series) uint64 { return s.reconciles }),
		total("scaledjob_reconcile_errors_total", "Reconciliations that met an error.",
			func(s *series) uint64 { return s.failures }),
		total("scaledjob_notifications_missed_total", "Growths of the queue without a notification.",
			func(s *series) uint64 { return s.missed }),
		total("scaledjob_jobs_created_total", "Jobs created.",
			func(s *series) uint64 { return s.created }),
	}
)

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, scaledJobLabels, nil)
}

// counted is a gauge that is known once the Jobs were counted.
func counted(name, help string, value func(*series) float64) family {
	return family{describe(name, help), prometheus.GaugeValue, func(s *series) (float64, bool) { return value(s), s.observed }}
}

// total is a counter.
func total(name, help string, value func(*series) uint64) family {
	return family{describe(name, help), prometheus.CounterValue, func(s *series) (float64, bool) { return float64(value(s)), true }}
}

// at is a gauge for a time that is known once it is not zero.
func at(name, help string, value func(*series) time.Time) family {
	return family{describe(name, help), prometheus.GaugeValue, func(s *series) (float64, bool) {
		return seconds(value(s)), !value(s).IsZero()
	}}
}

// seconds returns a time in seconds since 1970.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func desired(s *series) (value float64, known bool) {
	if s.desired == nil {
		return 0, false
	}
	return float64(*s.desired), true
}

// scaledJobs collects the metrics of the ScaledJobs.
type scaledJobs struct{ of *Metrics }

// Describe implements [prometheus.Collector].
func (scaledJobs) Describe(all chan<- *prometheus.Desc) {
	for _, each := range families {
		all <- each.desc
	}
	all <- depthDesc
	all <- sinceDesc
	all <- oldestDesc
	all <- finished
	all <- reactionDesc
}

// Collect implements [prometheus.Collector]. It works on a copy, so that reconciles do not wait for who scrapes.
func (c scaledJobs) Collect(all chan<- prometheus.Metric) {
	for key, s := range c.of.copied() {
		s.collect(all, key)
	}
}

// copied returns a copy of all series.
func (m *Metrics) copied() map[types.NamespacedName]series {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[types.NamespacedName]series, len(m.all))
	for key, s := range m.all {
		each := *s
		if s.reactions != nil {
			own := *s.reactions
			each.reactions = &own
		}
		all[key] = each
	}
	return all
}

// collect sends the metrics of the ScaledJob.
func (s *series) collect(all chan<- prometheus.Metric, key types.NamespacedName) {
	labels := pairs("namespace", key.Namespace, "queue", s.queue, "scaledjob", key.Name)
	for _, each := range families {
		if value, known := each.value(s); known {
			all <- metric{each.desc, each.kind, labels, value}
		}
	}
	for _, each := range s.queues {
		of := labels
		if each.label != s.queue {
			of = pairs("namespace", key.Namespace, "queue", each.label, "scaledjob", key.Name)
		}
		all <- metric{depthDesc, prometheus.GaugeValue, of, float64(each.Depth)}
		if !each.NonEmptySince.IsZero() {
			all <- metric{sinceDesc, prometheus.GaugeValue, of, seconds(each.NonEmptySince)}
		}
		if !each.Oldest.IsZero() {
			all <- metric{oldestDesc, prometheus.GaugeValue, of, seconds(each.Oldest)}
		}
	}
	for outcome, count := range map[string]uint64{outcomeSucceeded: s.succeeded, outcomeFailed: s.failed} {
		if count > 0 {
			of := pairs("namespace", key.Namespace, "outcome", outcome, "queue", s.queue, "scaledjob", key.Name)
			all <- metric{finished, prometheus.CounterValue, of, float64(count)}
		}
	}
	if s.reactions != nil {
		count, buckets := s.reactions.cumulative()
		all <- prometheus.MustNewConstHistogram(
			reactionDesc, count, s.reactions.sum.Seconds(), buckets, key.Namespace, key.Name, s.queue)
	}
}

// cumulative returns the number of reactions, and how many of them were within each bound.
func (r *reactions) cumulative() (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(reactionBuckets))
	for i, bound := range reactionBuckets {
		count += r.buckets[i]
		buckets[bound] = count
	}
	return count + r.buckets[len(reactionBuckets)], buckets
}

// metric is a metric of a ScaledJob. It shares its labels with others.
type metric struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []*dto.LabelPair
	value  float64
}

// Desc implements [prometheus.Metric].
func (m metric) Desc() *prometheus.Desc { return m.desc }

// Write implements [prometheus.Metric].
func (m metric) Write(out *dto.Metric) error {
	out.Label = m.labels
	if m.kind == prometheus.CounterValue {
		out.Counter = &dto.Counter{Value: &m.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &m.value}
	}
	return nil
}

// pairs returns labels from names, in alphabetical order, and values in turn.
func pairs(namesAndValues ...string) []*dto.LabelPair {
	made, all := make([]dto.LabelPair, len(namesAndValues)/2), make([]*dto.LabelPair, len(namesAndValues)/2)
	for i := range all {
		all[i] = &made[i]
		made[i].Name, made[i].Value = &namesAndValues[2*i], &namesAndValues[2*i+1]
	}
	return all
}
