// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// lateCalls is how many late calls a tenant may have before its further calls fail at once. A late call blocks a
	// worker for at most a second, and there are many more workers than this.
	lateCalls = 4
	// limitedFor is how long after too many late calls a tenant may have only lateCalls calls at all. Without it, as
	// many calls as there are workers could begin at the same moment, before any of them is late.
	limitedFor = 5 * time.Second
)

// callQuota limits the calls of each tenant. It is safe for concurrent use.
//
// The empty tenant has no limit.
type callQuota struct {
	mu sync.Mutex
	of map[string]*calls
}

// calls has the counts of one tenant.
type calls struct {
	outstanding, late int
	// limitedAt is when the tenant last had too many late calls.
	limitedAt time.Time
}

// newCallQuota returns a callQuota without calls.
func newCallQuota() *callQuota { return &callQuota{of: map[string]*calls{}} }

// begin counts a call until end. It returns false if the tenant has too many late calls.
func (c *callQuota) begin(tenant string) (admitted bool) {
	if tenant == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[tenant]
	if of == nil {
		of = &calls{}
		c.of[tenant] = of
	}
	if of.late >= lateCalls || of.outstanding >= lateCalls && of.limited() {
		return false
	}
	of.outstanding++
	return true
}

// end ends a call that begin has counted.
func (c *callQuota) end(tenant string) {
	if tenant == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[tenant].outstanding--
}

// countLate adds more, which may be negative, to the number of late calls. The two calls for one late call may come in
// either order.
func (c *callQuota) countLate(tenant string, more int) {
	if tenant == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[tenant]
	of.late += more
	if of.late >= lateCalls {
		of.limitedAt = time.Now()
	}
}

// Wait runs wait, which waits for something other than a call, as a call of a tenant: see [Pool.ConnFor]. The error is
// an
// [*failure.Error] with the cause [failure.ErrBusy] if the tenant has too many late calls; then wait was not run.
func (p *Pool) Wait(tenant string, wait func()) error {
	if !p.calls.begin(tenant) {
		return failure.Classify(fmt.Errorf("waiting on behalf of %s: %w", tenant, failure.ErrBusy))
	}
	defer p.calls.end(tenant)
	defer clock(p.timing.lateAfter, func(more int) { p.calls.countLate(tenant, more) })()
	wait()
	return nil
}

// forgetIdle removes the tenants that make no calls.
func (c *callQuota) forgetIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tenant, of := range c.of {
		if of.outstanding == 0 && of.late == 0 && !of.limited() {
			delete(c.of, tenant)
		}
	}
}

func (c *calls) limited() bool { return time.Since(c.limitedAt) < limitedFor }
