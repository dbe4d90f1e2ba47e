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
	// masters are the masters, in the order of their addresses. A deployment with sentinels has one, and epoch is the
	// number of the failover that made it one.
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

// same reports whether the routes of all keys are the same.
func (v *view) same(as *view) bool {
	return (v.err == nil) == (as.err == nil) && slices.Equal(v.masters, as.masters) && slices.Equal(v.owners, as.owners) &&
		maps.Equal(v.importing, as.importing)
}

// process publishes what follows from the responses, if they differ from before or some have become old.
func (w *watcher) process(now time.Time) {
	defer w.checkedAt.Store(&now) // Not before: a route must not be read from the view before, as if that was checked.
	reported, causes, polled, differ := w.recent(now)
	if !differ {
		return
	}
	believed := w.members(reported)
	if len(believed) == 0 && len(reported) > 0 {
		causes = append(causes, anotherDeployment())
	}
	next := w.evaluate(believed, causes, polled, w.awaits(now))
	if next == nil {
		return // The first responses are still to come.
	}
	w.recordAnswering(believed)
	next.leaveOut(w.ofOtherClusters(reported))
	if next.err == nil || next.epoch > w.epoch {
		w.epoch = next.epoch
	}
	if next.err == nil {
		w.masters = next.masters
	}
	// Servers that know nobody, as right after a start, do not show that the others are gone.
	if peers := peersOf(believed); len(peers) > 0 {
		w.peers = peers
	}
	w.publish(next)
}

// publish makes known what follows from the responses.
func (w *watcher) publish(next *view) {
	before := w.known.Load()
	if before != nil && before.same(next) {
		w.known.Store(next) // The errors may differ.
		return
	}
	w.moved(next)
	w.logChange(before, next)
}

// adopt makes other routes known.
func (w *watcher) adopt(next *view) {
	w.known.Store(next)
	w.changes.Add(1)
}

// evaluate returns what follows from the responses, and from the errors of the servers that did not respond. It returns
// nil if there is no view yet, and none follows. Errors alone count only if no response is awaited.
func (w *watcher) evaluate(reported []response, causes []*failure.Error, polled int, awaits bool) *view {
	next := w.merge(reported, polled, awaits, w.epoch)
	if next == nil {
		cause := worst(causes)
		switch {
		case cause != nil && !awaits:
			return &view{err: w.explain(cause)}
		case w.known.Load() != nil: // The responses have become old, and nothing has failed.
			return &view{err: failure.Classify(fmt.Errorf("polling the servers of %s: %w", w.endpoint, failure.ErrBusy))}
		}
		return nil
	}
	if next.err == nil && slices.ContainsFunc(next.servers(), func(is auth.Endpoint) bool { return !w.mayUse(is.Address) }) {
		w.mu.Lock()
		w.differs = true // Some may be used later.
		w.mu.Unlock()
		return &view{err: tooManyAddresses()}
	}
	return next
}

// logChange logs what is new.
func (w *watcher) logChange(before, next *view) {
	const mostLogged = 8
	if next.err != nil {
		w.log.Info("The servers of a Redis deployment do not say where keys are", "reason", next.err.Reason, "cause", w.withoutPassword(next.err.Cause()))
		return
	}
	if before == nil || before.err != nil || !slices.Equal(before.masters, next.masters) {
		first := make([]string, 0, mostLogged)
		for _, each := range next.masters[:min(len(next.masters), mostLogged)] {
			first = append(first, w.shown(each.Address))
		}
		w.log.Info("The masters of a Redis deployment", "masters", len(next.masters), "addresses", first)
	}
}

// severity orders the reasons for which servers do not respond: what only a person can correct comes first.
var severity = []failure.Reason{
	failure.ReasonWrongMode, failure.ReasonMasterNotFound, failure.ReasonDialDenied, failure.ReasonAuthFailed, failure.ReasonPermissionDenied,
	failure.ReasonTLSFailed, failure.ReasonSecretNotFound, failure.ReasonSecretInvalid, failure.ReasonSecretForbidden,
}

// worst returns the error that a person must correct first; nil if there is none.
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
