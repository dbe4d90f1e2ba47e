// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// responseLife is how long a response counts. A master that no sentinel has named for so long is not used: there may
	// be a new one by now. It is longer than the timeout of a request and the time until the next one. The response of a
	// sentinel that may make another server the master sooner counts for a shorter time, but at least for leastLife.
	responseLife = 5 * time.Second
	leastLife    = 3 * pollInterval
	// beginTimeout bounds how long the first view waits for all servers. It is longer than two requests, one to a server
	// that the user names and one to a server that this one names.
	beginTimeout = 3 * time.Second
)

// response is what a server reported last.
type response struct {
	// from is the address of the server.
	from string
	// sentAt is when the request for it was sent, and triedAt when the last request was sent, which may have failed, but
	// not because the operator was busy.
	sentAt, triedAt time.Time
	// named is the master that a sentinel names, and others are the other sentinels that it knows. life is how long the
	// response counts; 0 means responseLife.
	named  *naming
	others []other
	life   time.Duration
	// nodes is what a node of a Cluster reports.
	nodes *nodes
	// err is why there was no response since.
	err *failure.Error
}

// other is a sentinel that another one knows. id is its run ID, or its address if the run ID is not known.
type other struct{ address, id string }

// peers returns the IDs of the servers that the server knows.
func (r response) peers() (ids []string) {
	if r.nodes != nil {
		return r.nodes.masters
	}
	for _, its := range r.others {
		ids = append(ids, its.id)
	}
	return ids
}

// counts reports whether there is a response that is not too old.
func (r response) counts() bool { return r.named != nil || r.nodes != nil }

// old reports whether the response is too old to count.
func (r response) old(now time.Time) bool { return since(r.sentAt, now) >= r.lasts() }

// lasts returns how long the response counts.
func (r response) lasts() time.Duration { return cmp.Or(r.life, responseLife) }

// overdue reports whether the last request is as long ago as a response counts.
func (r response) overdue(now time.Time) bool { return since(r.triedAt, now) >= r.lasts() }

// since returns the time between two moments. While a machine is suspended, only the wall clock goes on.
func since(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// same reports whether the same follows from two responses.
func (r response) same(as response) bool {
	reason := func(err *failure.Error) failure.Reason {
		if err == nil {
			return ""
		}
		return err.Reason
	}
	return r.counts() == as.counts() && reason(r.err) == reason(as.err) && slices.Equal(r.others, as.others) &&
		(r.named == nil || *r.named == *as.named) && (r.nodes == nil || r.nodes.same(as.nodes))
}

// record stores a response, unless its server is not polled any longer. After an error, the response before it counts
// until it is too old.
func (w *watcher) record(address string, by *poller, reported response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pollers[address] != by {
		return
	}
	before := w.responses[address]
	if reported.err.Busy() {
		reported.triedAt = before.triedAt
	}
	if reported.err != nil {
		reported.sentAt, reported.named, reported.others, reported.life, reported.nodes = before.sentAt, before.named, before.others, before.life, before.nodes
	}
	reported.from = address
	if !reported.same(before) || before.overdue(time.Now()) {
		w.received++
		w.differs = true
		set(w.unprocessed)
	}
	w.responses[address] = reported
	w.signalUpdate()
}

// signalUpdate wakes those who wait for responses. Call it with the lock held.
func (w *watcher) signalUpdate() {
	close(w.updated)
	w.updated = make(chan struct{})
}

// awaits reports whether a server has yet to be polled that may know of a later failover than those that have
// responded: before the first view one that the others name, and always one that was not polled within the last
// seconds, as after the process was stopped.
func (w *watcher) awaits(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, each := range w.responses {
		if each.overdue(now) {
			return true
		}
	}
	return w.known.Load() == nil && len(w.pollers) > 0 && now.Sub(w.begun) < beginTimeout &&
		slices.ContainsFunc(w.wanted(w.memberResponses(), w.masters), func(address string) bool {
			_, polled := w.responses[address]
			return !polled
		})
}

// recent returns the responses that count now, the errors of other servers, how many servers are polled, and whether
// anything of this differs from before.
func (w *watcher) recent(now time.Time) (reported []response, causes []*failure.Error, polled int, differ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pollers) == 0 {
		causes = append(causes, tooManyPolled())
	}
	for _, address := range slices.Sorted(maps.Keys(w.responses)) {
		each := w.responses[address]
		if each.counts() && each.old(now) {
			each.named, each.others, each.nodes, w.differs = nil, nil, nil, true
			w.responses[address] = each
		}
		if each.counts() {
			reported = append(reported, each)
		}
		if each.err != nil {
			causes = append(causes, failure.Classify(w.about(w.server(address), each.err)))
		}
	}
	differ = w.differs || w.known.Load() == nil
	w.differs = false
	return reported, causes, len(w.pollers), differ
}

// unreachable returns the error for a deployment that does not say where a key is.
func unreachable(message, cause string) *failure.Error {
	return &failure.Error{Reason: failure.ReasonUnreachable, Message: message, Err: errors.New(cause)}
}
