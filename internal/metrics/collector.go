// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
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

	depthDesc = describe("scaledjob_queue_depth", "Outstanding messages when the queue was last read.")
	sinceDesc = describe("scaledjob_queue_nonempty_since_timestamp_seconds",
		"Since when the operator has found messages in the queue each time it read it. No message has waited for longer, unless it "+
			"was there before the operator first read the queue. Absent while the queue is empty.")
	oldestDesc = describe("scaledjob_queue_oldest_message_timestamp_seconds",
		"Since when the oldest message is outstanding, for streams, and for sorted sets with the window Due since it became due. The "+
			"operator asks for it every 10 seconds at most. Absent for other queues, and while there is none.")
	modeDesc = describe("scaledjob_mode",
		"How the operator learns of new messages: 1 for the current mode, 0 for the others.", "mode")
	conditionDesc = describe("scaledjob_condition", "One series for each condition in the status, always 1.", "reason", "status", "type")
	refusedDesc   = describe("scaledjob_creates_refused_total", "Creates of Jobs that the API server refused, by who refused them: quota, admission webhook, admission policy, permissions, "+
		"change (a policy changed the Job so that the operator can't count it), or API server.", "by")

	finished = prometheus.NewDesc("scaledjob_jobs_finished_total", "Jobs that have finished, by outcome: succeeded or failed.",
		append([]string{"outcome"}, scaledJobLabels...), nil)
	reactionDesc = describe("scaledjob_event_to_create_seconds",
		"Time from the first unprocessed notification, or from the first read that showed growth of a tracked key, until a Job was "+
			"created. It has classic and native buckets.")

	families = []family{
		counted("scaledjob_active_jobs", "Jobs that have not finished.",
			func(s *series) float64 { return float64(s.active) }),
		counted("scaledjob_pending_jobs", "Active Jobs without a ready Pod.",
			func(s *series) float64 { return float64(s.pending) }),
		counted("scaledjob_suspended_jobs", "Active Jobs that are suspended, for example because Kueue has not admitted them.",
			func(s *series) float64 { return float64(s.suspended) }),
		counted("scaledjob_max_replicas", "spec.maxReplicas, or its default.",
			func(s *series) float64 { return float64(s.maximum) }),
		{describe("scaledjob_suspend", "1 while spec.suspend is true."), prometheus.GaugeValue, func(s *series) (float64, bool) {
			return indicator(s.suspend), s.observed || len(s.conditions) > 0
		}},
		at("scaledjob_certificate_expiry_timestamp_seconds",
			"When the first certificate in the Secrets that the ScaledJob names for TLS expires.",
			func(s *series) time.Time { return s.expiry }),
		counted("scaledjob_creation_pausing", "1 while the creation of Jobs pauses. 0 while only the Jobs for orphaned messages are limited.",
			func(s *series) float64 { return indicator(s.pausing) }),
		counted("scaledjob_notifications_active", "1 in mode Events, 0 in the modes Tracking and Polling.",
			func(s *series) float64 { return indicator(s.events) }),
		{describe("scaledjob_desired_jobs", "Jobs that should be active; while suspended, Jobs that would be active."), prometheus.GaugeValue, desired},
		at("scaledjob_last_read_timestamp_seconds", "When the depth was last read.",
			func(s *series) time.Time { return s.lastRead }),
		at("scaledjob_last_event_timestamp_seconds", "When the last notification of growth arrived.",
			func(s *series) time.Time { return s.lastEvent }),
		total("scaledjob_reconcile_total", "Reconciles.",
			func(s *series) uint64 { return s.reconciles }),
		total("scaledjob_reconcile_errors_total", "Reconciles with an error from Redis or from the API server.",
			func(s *series) uint64 { return s.failures }),
		total("scaledjob_notifications_missed_total", "How often the queue grew and no notification arrived, or, while its keys are tracked, the server did not report it.",
			func(s *series) uint64 { return s.missed }),
		total("scaledjob_jobs_created_total", "Jobs created.",
			func(s *series) uint64 { return s.created }),
	}
)

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(more, scaledJobLabels...), nil)
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
	all <- modeDesc
	all <- conditionDesc
	all <- refusedDesc
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
			own.native = maps.Clone(own.native)
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
	s.collectStates(all, key)
	if s.reactions != nil {
		all <- reactionMetric{s.reactions, labels}
	}
}

// modes are the values of the label mode.
var modes = []string{"Events", "Tracking", "Polling"}

// collectStates sends the metrics with labels of their own: the mode, the conditions and the refused creates.
func (s *series) collectStates(all chan<- prometheus.Metric, key types.NamespacedName) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
		of := pairs(append(more, "namespace", key.Namespace, "queue", s.queue, "scaledjob", key.Name)...)
		slices.SortFunc(of, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
		all <- metric{desc, kind, of, value}
	}
	for _, mode := range modes {
		if s.mode != "" {
			send(modeDesc, prometheus.GaugeValue, indicator(s.mode == mode), "mode", mode)
		}
	}
	for _, is := range s.conditions {
		send(conditionDesc, prometheus.GaugeValue, 1, "type", is.Type, "status", is.Status, "reason", is.Reason)
	}
	for by, count := range s.refused {
		send(refusedDesc, prometheus.CounterValue, float64(count), "by", by)
	}
}

// reactionMetric is a histogram with classic buckets, and native ones for servers that take them.
type reactionMetric struct {
	*reactions

	labels []*dto.LabelPair
}

// Desc implements [prometheus.Metric].
func (reactionMetric) Desc() *prometheus.Desc { return reactionDesc }

// Write implements [prometheus.Metric].
func (m reactionMetric) Write(out *dto.Metric) error {
	count, buckets := m.cumulative()
	native, err := prometheus.NewConstNativeHistogram(
		reactionDesc, count, m.sum.Seconds(), m.native, nil, 0, nativeSchema, 0, time.Time{}, "", "", "")
	if err != nil {
		return err
	}
	if err := native.Write(out); err != nil {
		return err
	}
	out.Label, out.Histogram.CreatedTimestamp = m.labels, nil
	for _, bound := range reactionBuckets {
		out.Histogram.Bucket = append(out.Histogram.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: new(buckets[bound])})
	}
	return nil
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
