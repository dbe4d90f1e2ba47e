// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/moment"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

const (
	// oldestInterval is the minimum time between two questions to Redis for the oldest messages of a ScaledJob, and
	// oldestRetry the time after one without an answer. oldestFactor is how many times as long as the last question the
	// time until the next one is: messages that arrive during a question get their Jobs after it.
	oldestInterval = 10 * time.Second
	oldestRetry    = 5 * time.Minute
	oldestFactor   = 200
)

// age has the times of the messages in a queue. They are zero while the queue is empty.
type age struct {
	queue queueID
	// nonEmpty is since when each read has found messages. oldest is since when the oldest one is outstanding; also zero
	// if that is not known.
	nonEmpty, oldest time.Time
}

// observeAges updates the ages after a read. Those of queues that were named before an edit stay.
func (m *memory) observeAges(t *target, counts queue.Counts, now time.Time) {
	if !slices.EqualFunc(m.ages, m.queues, func(known age, id queueID) bool { return known.queue == id }) {
		m.renameAges(t)
	}
	for i, count := range counts {
		switch is := &m.ages[i]; {
		case count.Outstanding() == 0:
			is.nonEmpty, is.oldest = time.Time{}, time.Time{}
		case is.nonEmpty.IsZero():
			is.nonEmpty = now
		}
	}
}

// restoreAges takes the ages from the status after a restart. That does not wait for a read, because the status loses
// them if the spec is edited before the queues can be read.
func (m *memory) restoreAges(t *target) {
	if m.ages == nil {
		m.renameAges(t)
	}
}

// renameAges makes the ages those of the current queues. Messages that have waited before an edit do not wait for
// longer because of it.
func (m *memory) renameAges(t *target) {
	before, restarted := m.ages, m.ages == nil
	m.ages = make([]age, len(m.queues))
	for i, id := range m.queues {
		m.ages[i].queue = id
		if same := slices.IndexFunc(before, func(known age) bool { return known.queue == id }); same >= 0 {
			m.ages[i] = before[same]
		}
		if !restarted {
			continue
		}
		since := storedAge(t.sj.Status.Queues, id)
		m.ages[i].nonEmpty = since
		if !t.spec.Source.Queues[i].InProgress {
			m.waitingSince = moment.First(m.waitingSince, since)
		}
	}
}

// storedAge returns since when the queue has had messages according to the status; zero if it had none.
func storedAge(stored []scaledjobv1.QueueStatus, id queueID) time.Time {
	for _, each := range stored {
		if each.Name == id.key && each.ConsumerGroup == id.group && queue.Window(each.Window) == id.window && each.NonEmptySince != nil {
			return each.NonEmptySince.Time
		}
	}
	return time.Time{}
}

// setAge sets the times of the i-th queue in its status.
func (m *memory) setAge(status *scaledjobv1.QueueStatus, i int) {
	if i >= len(m.ages) || m.ages[i].queue.key != status.Name {
		return
	}
	status.NonEmptySince, status.OldestMessageTime = stored(m.ages[i].nonEmpty), stored(m.ages[i].oldest)
}

// stored returns a time as the API server stores it, in whole seconds; nil for none.
func stored(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at).Rfc3339Copy())
}

// observeWait records since when messages have been outstanding without all Jobs that would be due for them if
// activationThreshold were 0. It returns whether that is maxWaitSeconds ago, and otherwise when it will be; zero if no
// messages wait for that.
func (m *memory) observeWait(longest time.Duration, spec *scaledjob.Resolved, seen observation, now time.Time) (overdue bool, next time.Time) {
	if longest == 0 {
		return false, time.Time{}
	}
	state := stateOf(spec, seen)
	state.Overdue = true
	due := scaling.Decide(state, spec.Policy)
	if state.Outstanding() == 0 || due.Create == 0 && !due.AtMax {
		m.waitingSince = time.Time{}
		return false, time.Time{}
	}
	if m.waitingSince.IsZero() || m.waitingSince.After(now) {
		m.waitingSince = now
	}
	until := m.waitingSince.Add(longest)
	switch {
	case !now.Before(until):
		return true, time.Time{}
	case state.Outstanding() > spec.Policy.ActivationThreshold:
		return false, time.Time{}
	}
	return false, until
}

// observeOldest asks Redis since when the oldest message of each queue is outstanding. That is only for the status and
// the metrics, so it comes after the creates, and not each time.
func (r *Reconciler) observeOldest(ctx context.Context, t *target, seen observation, now time.Time) {
	mem, counts := t.mem, seen.queues.counts
	knows := slices.ContainsFunc(t.spec.Source.Queues, queue.Queue.HasOldest)
	if seen.queues.err != nil || !knows || counts.Outstanding() == 0 || now.Before(mem.askOldest) {
		return
	}
	before := make([]time.Time, len(mem.ages))
	for i, known := range mem.ages {
		before[i] = known.oldest
	}
	began := time.Now()
	oldest, complete := r.Queues.Oldest(ctx, t.spec.Source, counts, before)
	for i := range mem.ages {
		mem.ages[i].oldest = oldest[i]
	}
	ended := time.Now()
	mem.askOldest = ended.Add(max(oldestInterval, oldestFactor*ended.Sub(began)))
	if !complete {
		mem.askOldest = ended.Add(oldestRetry)
	}
}
