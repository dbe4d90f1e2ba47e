// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

// family is a metric of ScaledJobs.
type family struct {
	name, help string
	kind       dto.MetricType
}

// single is a family with one value each. value reports whether a ScaledJob has it.
type single struct {
	*family

	value func(s *series) (value float64, known bool)
}

// outcomes are the values of the label outcome of finished Jobs.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
)

var (
	depths = gaugeOf("scaledjob_queue_depth", "Outstanding messages when the queue was last read.")
	sinces = gaugeOf("scaledjob_queue_nonempty_since_timestamp_seconds",
		"Since when the operator has found messages in the queue each time it read it. No message has waited for longer, unless it "+
			"was there before the operator first read the queue. Absent while the queue is empty.")
	oldests = gaugeOf("scaledjob_queue_oldest_message_timestamp_seconds",
		"Since when the oldest message is outstanding, for streams, and for sorted sets with the window Due since it became due. The "+
			"operator asks for it every 10 seconds at most. Absent for other queues, and while there is none.")
	modes = gaugeOf("scaledjob_mode",
		"How the operator learns of new messages: 1 for the current mode, 0 for the others.")
	conditions = gaugeOf("scaledjob_condition", "One series for each condition in the status, always 1.")
	refusals   = counterOf("scaledjob_creates_refused_total", "Reconciles in which the API server refused to create a Job, by who refused it: quota, admission webhook, admission policy, permissions, "+
		"change (a policy changed the Job so that the operator can't count it), or API server.")
	finished  = counterOf("scaledjob_jobs_finished_total", "Jobs that have finished, by outcome: succeeded or failed.")
	histogram = &family{
		"scaledjob_event_to_create_seconds",
		"Time from the first unprocessed notification, or from the first read that showed growth of a tracked key, until a Job was " +
			"created. It has classic and native buckets.", dto.MetricType_HISTOGRAM,
	}

	singles = []single{
		counted("scaledjob_active_jobs", "Jobs that have not finished.",
			func(s *series) float64 { return float64(s.active) }),
		counted("scaledjob_pending_jobs", "Active Jobs without a ready Pod.",
			func(s *series) float64 { return float64(s.pending) }),
		counted("scaledjob_suspended_jobs", "Active Jobs that are suspended, for example because Kueue has not admitted them.",
			func(s *series) float64 { return float64(s.suspended) }),
		counted("scaledjob_max_replicas", "spec.maxReplicas, or its default.",
			func(s *series) float64 { return float64(s.maximum) }),
		{gaugeOf("scaledjob_suspend", "1 while spec.suspend is true."), func(s *series) (float64, bool) {
			return indicator(s.suspend), s.observed || len(s.conditions) > 0
		}},
		at("scaledjob_certificate_expiry_timestamp_seconds",
			"When the first certificate in the Secrets that the ScaledJob names for TLS expires.",
			func(s *series) time.Time { return s.expiry }),
		counted("scaledjob_creation_pausing", "1 while the creation of Jobs pauses. 0 while only the Jobs for orphaned messages are limited.",
			func(s *series) float64 { return indicator(s.pausing) }),
		counted("scaledjob_notifications_active", "1 in mode Events, 0 in the modes Tracking and Polling.",
			func(s *series) float64 { return indicator(s.mode == modeEvents) }),
		{gaugeOf("scaledjob_desired_jobs", "Jobs that should be active; while suspended, Jobs that would be active."), desired},
		at("scaledjob_last_read_timestamp_seconds", "When the depth was last read.",
			func(s *series) time.Time { return s.lastRead }),
		at("scaledjob_last_event_timestamp_seconds", "When the last notification of growth arrived.",
			func(s *series) time.Time { return s.lastEvent }),
		total("scaledjob_reconcile_total", "Reconciles.",
			func(s *series) uint64 { return s.reconciles }),
		total("scaledjob_reconcile_errors_total", "Reconciles with an error from Redis or from the API server, or of a spec that can't be used.",
			func(s *series) uint64 { return s.failures }),
		total("scaledjob_notifications_missed_total", "How often the queue grew and no notification arrived, or, while its keys are tracked, the server did not report it.",
			func(s *series) uint64 { return s.missed }),
		total("scaledjob_jobs_created_total", "Jobs created.",
			func(s *series) uint64 { return s.created }),
	}
)

func gaugeOf(name, help string) *family { return &family{name, help, dto.MetricType_GAUGE} }

func counterOf(name, help string) *family { return &family{name, help, dto.MetricType_COUNTER} }

// counted is a gauge that is known once the Jobs were counted.
func counted(name, help string, value func(*series) float64) single {
	return single{gaugeOf(name, help), func(s *series) (float64, bool) { return value(s), s.observed }}
}

// total is a counter.
func total(name, help string, value func(*series) uint64) single {
	return single{counterOf(name, help), func(s *series) (float64, bool) { return float64(value(s)), true }}
}

// at is a gauge for a time that is known once it is not zero.
func at(name, help string, value func(*series) time.Time) single {
	return single{gaugeOf(name, help), func(s *series) (float64, bool) { return seconds(value(s)), !value(s).IsZero() }}
}

// seconds returns a time in seconds since 1970.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func desired(s *series) (value float64, known bool) {
	if s.desired == nil {
		return 0, false
	}
	return float64(*s.desired), true
}

// Registry is a registry of controller-runtime.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// With returns the registry with the metrics of the ScaledJobs. They are not registered: a registry copies, hashes and
// sorts each of the hundreds of thousands of series at each scrape.
func (m *Metrics) With(registry Registry) Registry { return withScaledJobs{registry, m} }

type withScaledJobs struct {
	Registry

	metrics *Metrics
}

// Gather implements [prometheus.Gatherer].
func (w withScaledJobs) Gather() ([]*dto.MetricFamily, error) {
	all, err := w.Registry.Gather()
	scaledJobs, err2 := w.metrics.gather()
	all = append(all, scaledJobs...)
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, errors.Join(err, err2)
}

// gather returns the metrics of the ScaledJobs, of each family in the order of their names. It works on a copy, so that
// reconciles do not wait for who scrapes.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	all := m.copied()
	made := &gathering{families: map[*family]*dto.MetricFamily{}, own: map[[2]string]*dto.LabelPair{}, atATime: len(all)}
	for _, key := range slices.SortedFunc(maps.Keys(all), byName) {
		s := all[key]
		if err := s.collect(made, key); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Values(made.families)), nil
}

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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

// collect adds the metrics of the ScaledJob.
func (s *series) collect(to *gathering, key types.NamespacedName) error {
	labels := labelsOf(key, s.queue)
	for _, each := range singles {
		if value, known := each.value(s); known {
			to.add(each.family, value, labels)
		}
	}
	for _, each := range s.queues {
		of := labels
		if each.label != s.queue {
			of = labelsOf(key, each.label)
		}
		to.add(depths, float64(each.Depth), of)
		if !each.NonEmptySince.IsZero() {
			to.add(sinces, seconds(each.NonEmptySince), of)
		}
		if !each.Oldest.IsZero() {
			to.add(oldests, seconds(each.Oldest), of)
		}
	}
	s.collectStates(to, labels)
	if s.reactions == nil {
		return nil
	}
	reactions, err := s.reactions.metric(labels)
	to.family(histogram).Metric = append(to.family(histogram).Metric, reactions)
	return err
}

// modeEvents is the mode in which Redis sends notifications.
const modeEvents = "Events"

// allModes are the values of the label mode.
var allModes = []string{modeEvents, "Tracking", "Polling"}

// collectStates adds the metrics with labels of their own: the mode, the conditions, the refused creates and the
// outcomes.
func (s *series) collectStates(to *gathering, labels []*dto.LabelPair) {
	for _, mode := range allModes {
		if s.mode != "" {
			to.add(modes, indicator(s.mode == mode), labels, "mode", mode)
		}
	}
	for _, is := range s.conditions {
		to.add(conditions, 1, labels, "type", is.Type, "status", is.Status, "reason", is.Reason)
	}
	for by, count := range s.refused {
		to.add(refusals, float64(count), labels, "by", by)
	}
	// An increase from a series that did not exist is none.
	to.add(finished, float64(s.succeeded), labels, "outcome", outcomeSucceeded)
	to.add(finished, float64(s.failed), labels, "outcome", outcomeFailed)
}

// metric is a histogram with classic buckets, and native ones for servers that take them.
func (r *reactions) metric(labels []*dto.LabelPair) (*dto.Metric, error) {
	count, buckets := r.cumulative()
	native, err := prometheus.NewConstNativeHistogram(reactionDesc, count, r.sum.Seconds(), r.native, nil, 0, nativeSchema, 0, time.Time{})
	if err != nil {
		return nil, err
	}
	out := &dto.Metric{}
	if err := native.Write(out); err != nil {
		return nil, err
	}
	out.Label, out.Histogram.CreatedTimestamp = labels, nil
	for _, bound := range reactionBuckets {
		out.Histogram.Bucket = append(out.Histogram.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: new(buckets[bound])})
	}
	return out, nil
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

// gathering is what a scrape makes.
type gathering struct {
	families map[*family]*dto.MetricFamily
	// own are the labels that only some metrics have, by name and value. Many ScaledJobs share them.
	own map[[2]string]*dto.LabelPair
	// gauges and counters are those to use next. So many are made at a time.
	atATime  int
	gauges   []gaugeMetric
	counters []counterMetric
}

type gaugeMetric struct {
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
}

type counterMetric struct {
	metric  dto.Metric
	counter dto.Counter
	value   float64
}

// family returns the family of this scrape.
func (g *gathering) family(of *family) *dto.MetricFamily {
	made := g.families[of]
	if made == nil {
		made = &dto.MetricFamily{Name: &of.name, Help: &of.help, Type: &of.kind}
		g.families[of] = made
	}
	return made
}

// add adds a metric with these labels, and with own ones: names and values in turn.
func (g *gathering) add(of *family, value float64, labels []*dto.LabelPair, own ...string) {
	made := g.metric(of.kind, value)
	made.Label = labels
	if len(own) > 0 {
		made.Label = g.labels(labels, own)
	}
	to := g.family(of)
	to.Metric = append(to.Metric, made)
}

func (g *gathering) metric(kind dto.MetricType, value float64) *dto.Metric {
	if kind == dto.MetricType_COUNTER {
		if len(g.counters) == 0 {
			g.counters = make([]counterMetric, g.atATime)
		}
		made := &g.counters[0]
		g.counters = g.counters[1:]
		made.value, made.counter.Value, made.metric.Counter = value, &made.value, &made.counter
		return &made.metric
	}
	if len(g.gauges) == 0 {
		g.gauges = make([]gaugeMetric, g.atATime)
	}
	made := &g.gauges[0]
	g.gauges = g.gauges[1:]
	made.value, made.gauge.Value, made.metric.Gauge = value, &made.value, &made.gauge
	return &made.metric
}

// labels returns these labels and own ones, in the order of their names.
func (g *gathering) labels(labels []*dto.LabelPair, own []string) []*dto.LabelPair {
	all := make([]*dto.LabelPair, len(labels), len(labels)+len(own)/2)
	copy(all, labels)
	for i := 0; i < len(own); i += 2 {
		named := [2]string{own[i], own[i+1]}
		if g.own[named] == nil {
			g.own[named] = &dto.LabelPair{Name: &named[0], Value: &named[1]}
		}
		all = append(all, g.own[named])
	}
	slices.SortFunc(all, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// The names of the labels that all metrics of ScaledJobs have.
var namespaceLabel, scaledJobLabel, queueNameLabel = "namespace", "scaledjob", "queue"

// reactionDesc is for the library, which makes the native buckets. It reads no name from it.
var reactionDesc = prometheus.NewDesc(histogram.name, histogram.help, nil, nil)

// labelsOf are those that all metrics of a ScaledJob have, in the order of their names.
func labelsOf(key types.NamespacedName, queue string) []*dto.LabelPair {
	return []*dto.LabelPair{
		{Name: &namespaceLabel, Value: &key.Namespace}, {Name: &queueNameLabel, Value: &queue}, {Name: &scaledJobLabel, Value: &key.Name},
	}
}
