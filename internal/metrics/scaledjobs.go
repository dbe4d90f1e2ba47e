// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/moment"
)

// series are the values of one ScaledJob. They become metrics when they are scraped: metrics that are kept take many
// times their memory.
type series struct {
	// queue is the label of the queue, and queues are the values of the keys. queues is replaced and never changed.
	queue  string
	queues []queueSeries
	// observed is true once Jobs were counted. The fields up to the next comment are unknown before.
	observed                   bool
	active, pending, suspended int32
	maximum                    int32
	pausing, suspend           bool
	// mode is empty while it is unknown. conditions is replaced and never changed.
	mode       string
	conditions []Condition
	// desired is nil, and the times are zero, while they are unknown.
	desired             *int32
	lastRead, lastEvent time.Time
	expiry              time.Time
	// These count from 0.
	reconciles, failures, missed, created, succeeded, failed uint64
	// These appear with the first one. refused is replaced and never changed.
	reactions *reactions
	refused   map[string]uint64
}

// queueSeries has the values of a key, and its label.
type queueSeries struct {
	label string
	QueueSample
}

// reactions is a histogram of reactions. buckets are not cumulative, and the last one has no upper bound.
type reactions struct {
	buckets [len(reactionBuckets) + 1]uint64
	sum     time.Duration
	// native are the buckets of the native histogram.
	native map[int]int64
}

func (r *reactions) observe(reaction time.Duration) {
	at, _ := slices.BinarySearch(reactionBuckets[:], reaction.Seconds())
	r.buckets[at]++
	r.sum += reaction
	if r.native == nil {
		r.native = map[int]int64{}
	}
	r.native[nativeBucket(reaction.Seconds())]++
}

// nativeSchema has eight buckets for each doubling, so that each is 9 % larger than the one before.
const nativeSchema = 3

// nativeBucket returns the index of the bucket of a native histogram that has the value.
func nativeBucket(value float64) int { return int(math.Ceil(math.Log2(value) * (1 << nativeSchema))) }

// Condition is a condition of a status.
type Condition struct{ Type, Status, Reason string }

// QueueSample is the state of a queue.
type QueueSample struct {
	// Key is the Redis key. Several queues may have the same.
	Key string
	// Depth is the number of outstanding messages.
	Depth int64
	// NonEmptySince is since when there have been some, and Oldest since when the oldest is outstanding. They are zero if
	// there are none, or if that is not known.
	NonEmptySince, Oldest time.Time
}

// Sample is the result of one reconcile.
type Sample struct {
	// Queue is the key of the queue; empty if there are several.
	Queue string
	// Queues are the queues whose depth is known, as they were last read. Read is true if they were read now.
	Queues []QueueSample
	Read   bool
	// Desired is the number of Jobs that should be active; if nil, the series keeps its value.
	Desired *int32
	// Active is the number of unfinished Jobs, Pending the number of those without a ready Pod, and Suspended the number
	// of those that are suspended.
	Active, Pending, Suspended int32
	// Max is the maximum number of active Jobs. Suspend is true while creation is suspended.
	Max     int32
	Suspend bool
	// Mode is how the operator learns of growth; empty if that is not known. Conditions are those of the status.
	Mode       string
	Conditions []Condition
	// CertificatesExpire is when the first certificate in the Secrets of the ScaledJob expires; zero if there is none.
	CertificatesExpire time.Time
	// RefusedBy is who refused to create a Job; empty if none was refused.
	RefusedBy string
	// Pausing is true while creation is paused, or will be again if there is no progress.
	Pausing bool
	// LastEvent is when the last notification of growth arrived; zero if none has.
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
	m.seriesOf(key, queue).count(true)
}

// Malformed counts a reconcile of a ScaledJob whose spec can't be used. What an earlier reconcile has observed stays.
func (m *Metrics) Malformed(key types.NamespacedName, queue string, suspend bool, conditions []Condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seriesOf(key, queue)
	s.suspend = suspend
	s.setConditions(conditions)
	s.count(true)
}

// Read records how long a read of a depth took.
func (m *Metrics) Read(took time.Duration) { m.reads.Observe(took.Seconds()) }

// Observe records the result of one reconcile of a ScaledJob.
func (m *Metrics) Observe(key types.NamespacedName, sample Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seriesOf(key, sample.Queue)
	s.observed, s.active, s.pending, s.suspended = true, sample.Active, sample.Pending, sample.Suspended
	s.pausing, s.suspend = sample.Pausing, sample.Suspend
	s.maximum, s.mode, s.expiry = sample.Max, sample.Mode, sample.CertificatesExpire
	s.setConditions(sample.Conditions)
	s.setQueues(sample.Queues, m.label)
	if sample.RefusedBy != "" {
		s.refuse(sample.RefusedBy)
	}
	if sample.Read {
		s.lastRead = time.Now()
	}
	if sample.Desired != nil {
		s.desired = new(*sample.Desired)
	}
	if !sample.LastEvent.IsZero() {
		s.lastEvent = sample.LastEvent
	}
	if sample.Missed {
		s.missed++
	}
	s.count(sample.Failed)
}

// setQueues sets the values of the queues. Those with the same label share a series, with the sum of their depths and
// the earliest of their times.
func (s *series) setQueues(queues []QueueSample, label func(key string) string) {
	s.queues = nil
	for _, queue := range queues {
		is := queueSeries{label(queue.Key), queue}
		if same := slices.IndexFunc(s.queues, func(each queueSeries) bool { return each.label == is.label }); same >= 0 {
			s.queues[same].add(is.QueueSample)
			continue
		}
		s.queues = append(s.queues, is)
	}
}

// add adds the values of another queue.
func (s *queueSeries) add(other QueueSample) {
	s.Depth += min(other.Depth, math.MaxInt64-s.Depth)
	s.NonEmptySince, s.Oldest = moment.First(s.NonEmptySince, other.NonEmptySince), moment.First(s.Oldest, other.Oldest)
}

// setConditions replaces the conditions if they have changed.
func (s *series) setConditions(conditions []Condition) {
	if !slices.Equal(s.conditions, conditions) {
		s.conditions = conditions
	}
}

// refuse counts a refused create.
func (s *series) refuse(by string) {
	refused := maps.Clone(s.refused)
	if refused == nil {
		refused = map[string]uint64{}
	}
	refused[by]++
	s.refused = refused
}

// count counts a reconcile.
func (s *series) count(hasFailed bool) {
	s.reconciles++
	if hasFailed {
		s.failures++
	}
}

// Created counts a created Job. reaction is the time since the notification that caused it; zero if none did.
func (m *Metrics) Created(key types.NamespacedName, queue string, reaction time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seriesOf(key, queue)
	s.created++
	if reaction <= 0 {
		return
	}
	if s.reactions == nil {
		s.reactions = &reactions{}
	}
	s.reactions.observe(reaction)
}

// Finished counts a finished Job. It ignores Jobs of ScaledJobs that were not reconciled yet.
func (m *Metrics) Finished(key types.NamespacedName, succeeded bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[key]
	switch {
	case s == nil:
	case succeeded:
		s.succeeded++
	default:
		s.failed++
	}
}

// label returns the label value of a queue.
func (m *Metrics) label(queue string) string {
	if m.withoutQueues {
		return ""
	}
	return queueLabel(queue)
}

// seriesOf returns the series of a ScaledJob. If its queue has changed, they start again.
func (m *Metrics) seriesOf(key types.NamespacedName, queue string) *series {
	label := m.label(queue)
	if known := m.all[key]; known != nil && known.queue == label {
		return known
	}
	m.all[key] = &series{queue: label}
	return m.all[key]
}

// Forget removes the series of a deleted ScaledJob.
func (m *Metrics) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}

// indicator returns 1 for true and 0 for false.
func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
