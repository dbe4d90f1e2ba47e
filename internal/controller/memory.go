// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// memory is what is kept of a ScaledJob from one pass to the next. All of it may be lost: then some requests are made that it would have
// saved, and a pause of creating is found again in the status and the Jobs, if not always as long as it was. Only the pass over its
// ScaledJob touches it, and there is never more than one at a time.
type memory struct {
	uid types.UID
	// tally follows its Jobs.
	tally jobs.Tally
	// ownerDoubted says that an unfinished Job has left the cache, or that it is not known whether one has: the ScaledJob may be going.
	ownerDoubted bool
	// pause pauses creating while it is of no use.
	pause scaling.Pause
	// suspended says that creating was suspended at the last pass.
	suspended bool
	// claims are of which Jobs it is taken that they hold messages.
	claims jobs.Claims
	// templateHash is that of the template at the last pass; empty before the first.
	templateHash string
	// deletes are those of its Jobs.
	deletes jobcontrol.Deletes
	// notified is when the first notification came that no pass has acted on; zero if there is none.
	notified time.Time
	// createFailed says that the last batch of creates met an error.
	createFailed bool
	// status is what was written of it, and is to be.
	status report.StatusRecord
	// template is where the check of the template stands.
	template jobcontrol.DryRun
}

// suspensionLifted says whether the ScaledJob was suspended until now. Of the time before the first pass, its status tells.
func (m *memory) suspensionLifted(sj *scaledjobv1.ScaledJob) bool {
	was := m.suspended
	if m.tally.First() {
		ready := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionReady)
		was = ready != nil && ready.Reason == scaledjobv1.ReasonSuspended
	}
	m.suspended = sj.Spec.Suspend
	return was && !sj.Spec.Suspend
}

// memories are the memories of all ScaledJobs. The zero value is ready for use.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memory
}

// ofAnother says whether there is a memory of a deleted ScaledJob of the same name.
func (m *memories) ofAnother(sj *scaledjobv1.ScaledJob) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.all[types.NamespacedName{Namespace: sj.Namespace, Name: sj.Name}]
	return known != nil && known.uid != sj.UID
}

// of is the memory of the ScaledJob.
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

// drop removes a memory, and returns the UID of the ScaledJob that it was of.
func (m *memories) drop(key types.NamespacedName) (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.all[key]
	if known == nil {
		return "", false
	}
	delete(m.all, key)
	return known.uid, true
}
