// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

// inbox keeps wakes until they are due, and merges those of each id, as the work queue does.
type inbox struct {
	mu      sync.Mutex
	waiting map[ID]*waiting
	due     []ID
	filled  coalesce.Signal
}

type waiting struct {
	cause coalesce.Cause
	at    time.Time
	timer *time.Timer
}

func newInbox() *inbox { return &inbox{waiting: map[ID]*waiting{}, filled: coalesce.NewSignal()} }

func (b *inbox) add(w coalesce.Wake) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is, ok := b.waiting[w.ID]
	if !ok {
		is = &waiting{}
		b.waiting[w.ID] = is
	}
	is.cause = max(is.cause, w.Cause)
	if at := time.Now().Add(w.After); !ok || at.Before(is.at) {
		is.at = at
		if is.timer != nil {
			is.timer.Stop()
		}
		is.timer = time.AfterFunc(w.After, func() { b.expire(w.ID, is, at) })
	}
}

func (b *inbox) expire(id ID, is *waiting, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[id] == is && is.at.Equal(at) {
		b.due = append(b.due, id)
		b.filled.Set()
	}
}

func (b *inbox) take() (w coalesce.Wake, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.due) == 0 {
		return w, false
	}
	id := b.due[0]
	b.due = b.due[1:]
	w = coalesce.Wake{ID: id, Cause: b.waiting[id].cause}
	delete(b.waiting, id)
	return w, true
}

// run serves one wake after the other until ctx is done, as a reconciler does: when the state of an id changes by time,
// the id is served again.
func (b *inbox) run(ctx context.Context, watcher *Watcher, serve func(ctx context.Context, w coalesce.Wake)) {
	for {
		for w, ok := b.take(); ok && ctx.Err() == nil; w, ok = b.take() {
			watcher.Acknowledge(w.ID)
			serve(ctx, w)
			if until := watcher.State(w.ID).ValidUntil; !until.IsZero() {
				b.add(coalesce.Wake{ID: w.ID, After: time.Until(until)})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-b.filled:
		}
	}
}
