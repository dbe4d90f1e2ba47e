// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/admission"
)

// quotaSpacing is the time between two ScaledJobs of a namespace that try to create a Job because a quota may have room
// again. Most of them are refused again.
const quotaSpacing = 100 * time.Millisecond

// quotaWaiters are the ScaledJobs of a namespace whose last create a quota refused. Each may try again in the turn that it
// got when a Job of any of them finished or was deleted.
type quotaWaiters struct {
	turns map[string]quotaTurn
	// next is the earliest free turn.
	next time.Time
}

// quotaTurn is when a ScaledJob may try to create a Job again; at is zero if nothing has made room. deleted is true if a
// Job was deleted, which a quota may notice later than the operator.
type quotaTurn struct {
	at      time.Time
	deleted bool
}

// noteQuota records whether a quota keeps the ScaledJob from creating Jobs that are due.
func (m *memories) noteQuota(t *target, plan plan, done created) {
	refused := done.failed() && t.mem.answer.By == admission.ByQuota
	m.mu.Lock()
	defer m.mu.Unlock()
	waiters := m.quotas[t.sj.Namespace]
	switch {
	case refused && waiters == nil:
		if m.quotas == nil {
			m.quotas = map[string]*quotaWaiters{}
		}
		m.quotas[t.sj.Namespace] = &quotaWaiters{turns: map[string]quotaTurn{t.sj.Name: {}}}
	case refused && waiters.turns[t.sj.Name] == quotaTurn{}:
		waiters.turns[t.sj.Name] = quotaTurn{}
	case done.jobs > 0 || plan.known && plan.due == 0:
		m.leaveQuota(t.key())
	}
}

// leaveQuota records that no quota keeps the ScaledJob from creating Jobs. The caller holds the lock.
func (m *memories) leaveQuota(key types.NamespacedName) {
	waiters := m.quotas[key.Namespace]
	if waiters == nil {
		return
	}
	delete(waiters.turns, key.Name)
	if len(waiters.turns) == 0 {
		delete(m.quotas, key.Namespace)
	}
}

// freed gives a turn to each ScaledJob of the namespace that waits for a quota and has none. deleted is true if a Job was
// deleted, and false if it has finished. It returns how long after now the turns are.
func (m *memories) freed(namespace string, deleted bool) map[types.NamespacedName]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiters, now := m.quotas[namespace], time.Now()
	if waiters == nil {
		return nil
	}
	wakes := map[types.NamespacedName]time.Duration{}
	for name, turn := range waiters.turns {
		if turn.at.IsZero() {
			if waiters.next.Before(now) {
				waiters.next = now
			}
			turn.at, waiters.next = waiters.next, waiters.next.Add(quotaSpacing)
			wakes[types.NamespacedName{Namespace: namespace, Name: name}] = turn.at.Sub(now)
		}
		turn.deleted = turn.deleted || deleted
		waiters.turns[name] = turn
	}
	return wakes
}

// takeTurn returns the turn of the ScaledJob if it has come, and removes it.
func (m *memories) takeTurn(t *target, now time.Time) (turn quotaTurn, has bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiters := m.quotas[t.sj.Namespace]
	if waiters == nil {
		return quotaTurn{}, false
	}
	turn = waiters.turns[t.sj.Name]
	if turn.at.IsZero() || now.Before(turn.at) {
		return quotaTurn{}, false
	}
	waiters.turns[t.sj.Name] = quotaTurn{}
	return turn, true
}
