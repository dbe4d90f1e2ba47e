// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// checkTimeout is for how long the age of the responses may not have been checked, as while the process was stopped.
	// Then nothing is known until the next check.
	checkTimeout = 2 * pollInterval
	// refreshTimeout bounds how long a worker waits for responses that say where a key has moved.
	refreshTimeout = 250 * time.Millisecond
)

// route returns where a key is.
func (w *watcher) route(key string) (Route, error) {
	checkedAt := w.checkedAt.Load()
	known := w.known.Load() // After checkedAt, so that it is what was checked, or later.
	if known == nil || since(*checkedAt, time.Now()) >= checkTimeout {
		return Route{}, failure.Classify(fmt.Errorf("polling the servers of %s: %w", w.endpoint, failure.ErrBusy))
	}
	return known.route(key)
}

// route returns where a key is.
func (v *view) route(key string) (Route, error) {
	switch {
	case v.err != nil:
		return Route{}, v.err
	case v.owners == nil:
		return Route{Owner: v.masters[0]}, nil
	}
	slot := SlotOf(key)
	owner := v.owners[slot]
	if owner == 0 {
		return Route{}, slotUncovered(slot)
	}
	return Route{Owner: v.masters[owner-1], Importing: v.importing[slot]}, nil
}

func (w *watcher) version() uint64 { return w.changes.Load() }

// refresh polls all servers. It returns when the responses of those whose last request did not fail were processed, or
// after refreshTimeout.
func (w *watcher) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	began := time.Now()
	w.pollNow()
	for {
		w.mu.Lock()
		updated, waiting := w.updated, w.processed < w.received
		for address := range w.pollers {
			last := w.responses[address]
			waiting = waiting || last.err == nil && last.triedAt.Before(began)
		}
		w.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-updated:
		}
	}
}

// pollNow polls all servers as soon as possible, instead of at their next time.
func (w *watcher) pollNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pollers {
		set(p.pollNow)
	}
}
