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
	// lookTimeout is how long nobody may have looked for old answers, as while the process was stopped. Then nothing is known.
	lookTimeout = 2 * askInterval
	// refreshTimeout bounds how long a worker waits for the answer to where a key has moved.
	refreshTimeout = 250 * time.Millisecond
)

// locate returns where a key is.
func (f *follower) locate(key string) (Place, error) {
	known, looked := f.known.Load(), f.looked.Load()
	switch {
	case known == nil || since(*looked, time.Now()) >= lookTimeout:
		return Place{}, failure.Classify(fmt.Errorf("asking where keys of %s are: %w", f.endpoint, failure.ErrBusy))
	case known.err != nil:
		return Place{}, known.err
	case known.owners == nil:
		return Place{Owner: known.masters[0]}, nil
	}
	slot := SlotOf(key)
	owner := known.owners[slot]
	if owner == 0 {
		return Place{}, slotUncovered(slot)
	}
	return Place{Owner: known.masters[owner-1], Importing: known.importing[slot]}, nil
}

func (f *follower) version() uint64 { return f.changes.Load() }

// refresh asks all servers, and returns when all have answered, except those whose last question failed, and the answers
// were considered, or after a moment.
func (f *follower) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	began := time.Now()
	f.hurry()
	for {
		f.mu.Lock()
		heard, waiting := f.heard, f.considered < f.noted
		for address := range f.pollers {
			last := f.answers[address]
			waiting = waiting || last.err == nil && last.tried.Before(began)
		}
		f.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
	}
}

// hurry has all servers be asked now.
func (f *follower) hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pollers {
		set(p.hurry)
	}
}
