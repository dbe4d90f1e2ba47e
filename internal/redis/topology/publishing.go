// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// view is what is known about a deployment. It does not change.
type view struct {
	// err is why nothing is known; nil if something is.
	err *failure.Error
	// masters are the masters, in the order of their addresses. A deployment with sentinels has one, and epoch is the number
	// of the failover that made it one.
	masters []auth.Endpoint
	epoch   uint64
	// owners has, for each slot of a Cluster, the index of its master plus 1; 0 if there is none. It is nil with
	// sentinels.
	owners []uint16
	// importing has the servers to which slots are being moved.
	importing map[uint16]auth.Endpoint
}

// servers returns all servers of the view.
func (v *view) servers() []auth.Endpoint {
	return slices.AppendSeq(slices.Clone(v.masters), maps.Values(v.importing))
}

// same reports whether keys are at the same places.
func (v *view) same(as *view) bool {
	return (v.err == nil) == (as.err == nil) && slices.Equal(v.masters, as.masters) && slices.Equal(v.owners, as.owners) &&
		maps.Equal(v.importing, as.importing)
}

// consider publishes what follows from the answers, if they differ or have become old.
func (f *follower) consider(now time.Time) {
	f.looked.Store(&now)
	said, causes, asked, complete, differ := f.recent(now)
	if !differ {
		return
	}
	believed := f.judge(said)
	if len(believed) == 0 && len(said) > 0 {
		causes = append(causes, anotherDeployment())
	}
	next := f.conclude(believed, causes, asked, complete || now.Sub(f.begun) >= askInterval)
	if next == nil {
		return // The first answers are still to come.
	}
	f.attest(believed)
	next.leaveOut(f.foreign(said))
	if next.err == nil || next.epoch > f.epoch {
		f.epoch = next.epoch
	}
	if next.err == nil {
		f.masters = next.masters
	}
	// Servers that know nobody, as right after a start, do not show that the others are gone.
	if peers := peersOf(believed); len(peers) > 0 {
		f.peers = peers
	}
	before := f.known.Swap(next)
	if before == nil || !before.same(next) {
		f.changes.Add(1)
		set(f.changed)
		f.describe(before, next)
		f.forgetUnused(next)
	}
}

// conclude returns what follows from the answers and from the errors of the servers that have not answered. It returns nil
// while the first answers are still to come. Before that, waited says whether errors alone count.
func (f *follower) conclude(said []answer, causes []*failure.Error, asked int, waited bool) *view {
	next := f.decide(said, asked, f.epoch)
	if next == nil {
		cause := worst(causes)
		switch {
		case cause != nil && (waited || f.known.Load() != nil):
			return &view{err: f.explain(cause)}
		case cause == nil && f.known.Load() != nil: // The answers have become old, and nothing has failed.
			return &view{err: failure.Classify(fmt.Errorf("asking where keys of %s are: %w", f.endpoint, failure.ErrBusy))}
		}
		return nil
	}
	if next.err == nil && slices.ContainsFunc(next.servers(), func(is auth.Endpoint) bool { return !f.meet(is.Address) }) {
		f.mu.Lock()
		f.differs = true // Some may be met later.
		f.mu.Unlock()
		return &view{err: tooManyAddresses()}
	}
	return next
}

// describe logs what is new.
func (f *follower) describe(before, next *view) {
	const mostLogged = 8
	if next.err != nil {
		f.log.Info("The servers of a Redis deployment do not say where keys are", "reason", next.err.Reason, "cause", f.withoutPassword(next.err.Cause()))
		return
	}
	if before == nil || before.err != nil || !slices.Equal(before.masters, next.masters) {
		first := make([]string, 0, mostLogged)
		for _, each := range next.masters[:min(len(next.masters), mostLogged)] {
			first = append(first, f.shown(each.Address))
		}
		f.log.Info("The masters of a Redis deployment", "masters", len(next.masters), "addresses", first)
	}
}

// severity orders the reasons for which servers do not answer: what only a person can mend comes first.
var severity = []failure.Reason{
	failure.ReasonWrongMode, failure.ReasonMasterNotFound, failure.ReasonDialDenied, failure.ReasonAuthFailed, failure.ReasonPermissionDenied,
	failure.ReasonTLSFailed, failure.ReasonSecretNotFound, failure.ReasonSecretInvalid, failure.ReasonSecretForbidden,
}

// worst returns the error that tells most; nil if there is none.
func worst(causes []*failure.Error) *failure.Error {
	var found *failure.Error
	rank := func(err *failure.Error) int {
		if at := slices.Index(severity, err.Reason); at >= 0 {
			return at
		}
		return len(severity)
	}
	for _, each := range causes {
		if !each.Busy() && (found == nil || rank(each) < rank(found)) {
			found = each
		}
	}
	return found
}
