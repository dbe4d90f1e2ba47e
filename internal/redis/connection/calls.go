// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"
	"time"
)

const (
	// lateCalls is how many calls of one tenant may be late at once, before others of it fail at
	// once. A late call holds a worker for a second at most, and there are many more workers than
	// that.
	lateCalls = 4
	// restAfterCrowd is for how long after that a tenant may have no more calls than so many at
	// all. Those that begin at the same moment are none of them late yet.
	restAfterCrowd = 5 * time.Second
)

// callQuota are those that are on their way on behalf of tenants. They are safe for concurrent use.
//
// The tenant "" is nobody in particular, who may have any number of calls.
type callQuota struct {
	mu sync.Mutex
	of map[string]*calls
}

// calls are those of one tenant.
type calls struct {
	outstanding, late int
	// crowdedAt is when too many were late for the last time.
	crowdedAt time.Time
}

// newCallQuota returns callQuota of which none is on its way.
func newCallQuota() *callQuota { return &callQuota{of: map[string]*calls{}} }

// Begin counts a call until its End, unless the tenant has too many that may take long.
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
	if of.late >= lateCalls || of.outstanding >= lateCalls && of.crowded() {
		return false
	}
	of.outstanding++
	return true
}

// End ends a call that was admitted.
func (c *callQuota) end(tenant string) {
	if tenant == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[tenant].outstanding--
}

// CountLate notes that so many more calls of a tenant are late, or fewer if that is negative. Each
// call that is late counts both ways; which comes first does not matter.
func (c *callQuota) countLate(tenant string, more int) {
	if tenant == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[tenant]
	of.late += more
	if of.late >= lateCalls {
		of.crowdedAt = time.Now()
	}
}

// ForgetIdle drops what is kept of tenants that do not call.
func (c *callQuota) forgetIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tenant, of := range c.of {
		if of.outstanding == 0 && of.late == 0 && !of.crowded() {
			delete(c.of, tenant)
		}
	}
}

func (c *calls) crowded() bool { return time.Since(c.crowdedAt) < restAfterCrowd }
