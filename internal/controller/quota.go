// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/moment"
)

// quotaSpacing is the time between two ScaledJobs of a namespace that try to create a Job because a quota may have room
// again. Most of them are refused again.
const quotaSpacing = 100 * time.Millisecond

// quotaLagTwice is how long after a window in which refusals are not final the next one may begin, so that deletes of
// others do not keep a ScaledJob from deleting its own finished Jobs for the quota.
const quotaLagTwice = 2 * quotaLag

// quotaAgain is how long after a refusal the next turn is, until quotaLag after the last delete: the quota may still
// count the deleted Job.
const quotaAgain = 3 * time.Second

// quotaWaiters are the ScaledJobs of a namespace whose last create a quota refused.
type quotaWaiters struct {
	// idle are those to which the next delete gives a turn. turns are when ScaledJobs may try again.
	idle  map[string]struct{}
	turns map[string]time.Time
	// next is the earliest free turn, and freed is when a Job was last deleted.
	next, freed time.Time
}

// noteQuota records whether a quota keeps the ScaledJob from creating Jobs that are due.
func (m *memories) noteQuota(t *target, plan plan, done created) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch refused := done.failed() && t.mem.answer.By == admission.ByQuota; {
	case refused:
		waiters := m.awaitQuota(t.key())
		if done.refusal != nil {
			t.mem.quotaTurn = waiters.again(t.sj.Name, time.Now())
		}
	case done.failed() || done.jobs > 0 || plan.known && plan.due == 0 || t.sj.Spec.Suspend:
		m.leaveQuota(t.key())
	}
}

// awaitQuota records that a quota keeps the ScaledJob from creating Jobs, and returns all of its namespace that wait.
// The caller holds the lock.
func (m *memories) awaitQuota(key types.NamespacedName) *quotaWaiters {
	waiters := m.quotas[key.Namespace]
	if waiters == nil {
		waiters = &quotaWaiters{idle: map[string]struct{}{}, turns: map[string]time.Time{}}
		if m.quotas == nil {
			m.quotas = map[string]*quotaWaiters{}
		}
		m.quotas[key.Namespace] = waiters
	}
	if _, has := waiters.turns[key.Name]; !has {
		waiters.idle[key.Name] = struct{}{}
	}
	return waiters
}

// again returns the turn of a ScaledJob that was refused now, and gives it one if a Job was deleted shortly before;
// zero if it has none. Further deletes may still give it an earlier one.
func (w *quotaWaiters) again(name string, now time.Time) time.Time {
	if _, has := w.turns[name]; !has && now.Sub(w.freed) < quotaLag {
		w.turns[name] = now.Add(quotaAgain)
	}
	return w.turns[name]
}

// leaveQuota records that no quota keeps the ScaledJob from creating Jobs. The caller holds the lock.
func (m *memories) leaveQuota(key types.NamespacedName) {
	waiters := m.quotas[key.Namespace]
	if waiters == nil {
		return
	}
	delete(waiters.idle, key.Name)
	delete(waiters.turns, key.Name)
	if len(waiters.idle)+len(waiters.turns) == 0 {
		delete(m.quotas, key.Namespace)
	}
}

// freed gives a turn to each ScaledJob of the namespace that waits for a quota and has none, because a Job was deleted.
// It returns how long after now the turns are.
func (m *memories) freed(namespace string) map[types.NamespacedName]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiters, now := m.quotas[namespace], time.Now()
	if waiters == nil {
		return nil
	}
	waiters.freed = now
	wakes := make(map[types.NamespacedName]time.Duration, len(waiters.idle))
	for name := range waiters.idle {
		turn, booked := waiters.turns[name]
		if free := moment.Last(waiters.next, now); !booked || free.Before(turn) {
			turn, waiters.next = free, free.Add(quotaSpacing)
		}
		waiters.turns[name] = turn
		wakes[types.NamespacedName{Namespace: namespace, Name: name}] = turn.Sub(now)
	}
	clear(waiters.idle)
	return wakes
}

// mayFitQuota reports whether the turn of the ScaledJob has come to try again, because a quota may have room.
func (r *Reconciler) mayFitQuota(t *target, now time.Time) bool {
	may, first, next := r.memories.takeTurn(t, now)
	t.mem.quotaTurn = next
	if first && now.Sub(t.mem.roomMade) >= quotaLagTwice {
		t.mem.roomMade = now // The quota may still count the deleted Job.
	}
	return may
}

// takeTurn returns whether the turn of the ScaledJob has come, and otherwise when it will; zero if it has none. first
// is true if it is the first turn after a delete.
func (m *memories) takeTurn(t *target, now time.Time) (has, first bool, next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiters := m.quotas[t.sj.Namespace]
	if waiters == nil {
		return false, false, time.Time{}
	}
	turn, booked := waiters.turns[t.sj.Name]
	if !booked || now.Before(turn) {
		return false, false, turn
	}
	_, again := waiters.idle[t.sj.Name]
	delete(waiters.turns, t.sj.Name)
	waiters.idle[t.sj.Name] = struct{}{}
	return true, !again, time.Time{}
}
