// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/queue"
)

// fakeQueues serves the content that a test sets, by key. Other keys are empty. The zero value is ready for use, and
// safe for concurrent use.
type fakeQueues struct {
	mu     sync.Mutex
	counts map[string]queue.Count
	errs   map[string]error
	// oldest are the times that Oldest returns, after oldestTakes, and asked is how often it was called.
	oldest      []time.Time
	oldestTakes time.Duration
	asked       int
}

// SetDepth sets the number of waiting messages of key.
func (f *fakeQueues) SetDepth(key string, depth int64) { f.SetCount(key, queue.Count{Waiting: depth}) }

// SetCount sets the content of key.
func (f *fakeQueues) SetCount(key string, count queue.Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]queue.Count{}
	}
	f.counts[key] = count
	delete(f.errs, key)
}

// SetError makes reads of key fail with err.
func (f *fakeQueues) SetError(key string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.errs == nil {
		f.errs = map[string]error{}
	}
	f.errs[key] = err
}

// Observe returns the content of the queues of source, or the error of ctx.
func (f *fakeQueues) Observe(ctx context.Context, source queue.Source) ([]queue.Count, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var counts []queue.Count
	for _, each := range source.Queues {
		if err := f.errs[each.Key]; err != nil {
			return nil, err
		}
		counts = append(counts, f.counts[each.Key])
	}
	return counts, nil
}

// Oldest returns the times that a test sets, or what was before if it sets none.
func (f *fakeQueues) Oldest(_ context.Context, _ queue.Source, _ []queue.Count, before []time.Time) ([]time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	time.Sleep(f.oldestTakes)
	if f.oldest == nil {
		return before, false
	}
	return f.oldest, true
}
