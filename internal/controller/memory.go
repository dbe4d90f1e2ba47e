// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// memory is the in-memory state of a ScaledJob between reconciles. Losing it is safe: the operator then sends some
// requests again, and restores a pause of creation from the status. It needs no lock, because at most one reconcile of
// a ScaledJob runs at a time.
type memory struct {
	uid types.UID
	// tally tracks the owned Jobs.
	tally jobs.Tally
	// ownerDoubted is true if an unfinished Job disappeared from the cache, or if that is unknown. The ScaledJob may
	// then be in deletion, which has to be checked before Jobs are created. The answer to a write of the status, which
	// comes after the count of the Jobs, shows it as well.
	ownerDoubted bool
	// pause limits creation while new Jobs fail or make no progress, and refusals while they are refused.
	pause    scaling.Pause
	refusals scaling.Refusals
	// suspended is spec.suspend at the last reconcile.
	suspended bool
	// ages are those of the messages in each queue, and askOldest is from when on the oldest messages may be read again.
	// waitingSince is since when messages have been outstanding without their Jobs, if maxWaitSeconds is set; zero if none
	// are.
	ages         []age
	askOldest    time.Time
	waitingSince time.Time
	// suspendedSince is since when all active Jobs have been suspended; zero if they are not. quotaTurn is when the
	// ScaledJob may try again because a quota may have room; zero if it has no turn.
	suspendedSince time.Time
	quotaTurn      time.Time
	// readiness records which Jobs have, and have had, a ready Pod.
	readiness jobs.Readiness
	// templateHash is the hash of the template at the last reconcile; empty before the first.
	templateHash string
	// deletes tracks the deletes of owned Jobs.
	deletes jobcontrol.Deletes
	// notified is when the first notification arrived after the last complete reconcile; zero if none has.
	notified time.Time
	// failures is the number of reconciles in a row whose creates ended with an error, and answer is what the API
	// server said to the last.
	failures int
	answer   admission.Answer
	// roomMade is when finished Jobs were last deleted because of a quota.
	roomMade time.Time
	// createsSlowly is true if creates of this ScaledJob have timed out, and none has been faster since. Admission
	// webhooks may be slow for the Jobs of some ScaledJobs of a namespace only, so others must not end that.
	createsSlowly bool
	// refreshed is when the status last got other words of the API server.
	refreshed time.Time
	// status is the last computed and the last written status.
	status report.StatusRecord
	// pendingEvents are the events to emit with the next status.
	pendingEvents []occurrence
	// queues are the queues of the spec, and named is the generation of the spec with these.
	queues []queueID
	named  int64
	// template is the state of the dry run of the template.
	template jobcontrol.DryRun
}

// suspensionLifted reports whether spec.suspend was true at the last reconcile and is false now. At the first reconcile
// it takes the previous value from the status.
func (m *memory) suspensionLifted(sj *scaledjobv1.ScaledJob) bool {
	was := m.suspended
	if m.tally.First() {
		ready := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionReady)
		was = ready != nil && ready.Reason == scaledjobv1.ReasonSuspended
	}
	m.suspended = sj.Spec.Suspend
	return was && !sj.Spec.Suspend
}

// pausedUntil returns when the next Job may be created; zero if creation is not paused, or if that may be now.
func (m *memory) pausedUntil(now time.Time) time.Time {
	refused, probed := m.refusals.Until(now), m.pause.Until(now)
	if refused.After(probed) || !m.pause.All() && !refused.IsZero() {
		return refused
	}
	return probed
}

// limit returns why creation is paused.
func (m *memory) limit(now time.Time) scaling.PauseReason {
	switch reason := m.pause.Reason(); {
	case m.pause.All():
		return reason
	case m.refusals.Recent(now):
		return scaling.CreateRefused
	default:
		return reason
	}
}

// memories holds the memory of each ScaledJob. The zero value is ready for use.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memory
	// slow are the namespaces in which a create has timed out, and no create of any ScaledJob has been faster since. The
	// value is true if slow creates succeed.
	slow map[string]bool
	// named are the names of the ScaledJobs that name each queue.
	named map[queueID][]string
	// quotas are the ScaledJobs that wait for a quota, by namespace.
	quotas map[string]*quotaWaiters
}

// isSlow reports whether creates in the namespace are slow.
func (m *memories) isSlow(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, slow := m.slow[namespace]
	return slow
}

// hangs reports whether creates in the namespace time out, and none has succeeded since.
func (m *memories) hangs(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	succeeds, slow := m.slow[namespace]
	return slow && !succeeds
}

// noteCreates records whether creates of the ScaledJob have timed out, and how long they took.
func (m *memories) noteCreates(of *target, timedOut bool, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slowly := took > createTimeout
	of.mem.createsSlowly = timedOut || slowly && of.mem.createsSlowly
	_, known := m.slow[of.sj.Namespace]
	switch {
	case timedOut && m.slow == nil:
		m.slow = map[string]bool{of.sj.Namespace: false}
	case timedOut && (!known || took >= patientTimeout):
		m.slow[of.sj.Namespace] = false
	case timedOut:
	case slowly && known:
		m.slow[of.sj.Namespace] = true
	case !slowly:
		delete(m.slow, of.sj.Namespace)
	}
}

// ofAnother reports whether the stored memory belongs to a deleted ScaledJob of the same name.
func (m *memories) ofAnother(sj *scaledjobv1.ScaledJob) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.all[types.NamespacedName{Namespace: sj.Namespace, Name: sj.Name}]
	return known != nil && known.uid != sj.UID
}

// of returns the memory of the ScaledJob, and creates it if necessary.
func (m *memories) of(sj *scaledjobv1.ScaledJob) *memory {
	key := types.NamespacedName{Namespace: sj.Namespace, Name: sj.Name}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[types.NamespacedName]*memory{}
	}
	if m.all[key] == nil {
		m.all[key] = &memory{uid: sj.UID, status: report.NewStatusRecord()}
	}
	return m.all[key]
}

// drop removes the memory of a ScaledJob and returns the UID of that ScaledJob.
func (m *memories) drop(key types.NamespacedName) (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.all[key]
	if known == nil {
		return "", false
	}
	delete(m.all, key)
	m.unshare(key.Name, known.queues)
	m.leaveQuota(key)
	if _, slow := m.slow[key.Namespace]; slow && !m.has(key.Namespace) {
		delete(m.slow, key.Namespace)
	}
	return known.uid, true
}

// has reports whether there is memory of a ScaledJob of the namespace. The caller holds the lock.
func (m *memories) has(namespace string) bool {
	for key := range m.all {
		if key.Namespace == namespace {
			return true
		}
	}
	return false
}
