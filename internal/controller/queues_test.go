// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"

	"miracle.dev/scaledjob-operator/internal/queue"
)

// fakeQueues serve depths and errors that a test sets. A source that was never set is empty.
// The zero value is ready, and safe for concurrent use.
type fakeQueues struct {
	mu     sync.Mutex
	depths map[queue.Source]int64
	errs   map[queue.Source]error
}

// SetDepth makes later observations of source return depth, and no error.
func (f *fakeQueues) SetDepth(source queue.Source, depth int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.depths == nil {
		f.depths = map[queue.Source]int64{}
	}
	f.depths[source] = depth
	delete(f.errs, source)
}

// SetError makes later observations of source fail with err.
func (f *fakeQueues) SetError(source queue.Source, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.errs == nil {
		f.errs = map[queue.Source]error{}
	}
	f.errs[source] = err
}

// Observe returns what was set for source, or the error of ctx.
func (f *fakeQueues) Observe(ctx context.Context, source queue.Source) (int64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.errs[source]; err != nil {
		return 0, err
	}
	return f.depths[source], nil
}
