// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"sync"
)

// Fake serves depths and errors that a test sets. A source that was never set is empty.
// The zero value is ready, and safe for concurrent use.
type Fake struct {
	mu     sync.Mutex
	depths map[Source]int64
	errs   map[Source]error
}

// SetDepth makes later observations of source return depth, and no error.
func (f *Fake) SetDepth(source Source, depth int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.depths == nil {
		f.depths = map[Source]int64{}
	}
	f.depths[source] = depth
	delete(f.errs, source)
}

// SetError makes later observations of source fail with err.
func (f *Fake) SetError(source Source, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.errs == nil {
		f.errs = map[Source]error{}
	}
	f.errs[source] = err
}

// Observe returns what was set for source, or the error of ctx.
func (f *Fake) Observe(ctx context.Context, source Source) (int64, error) {
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
