// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import "time"

const (
	// lateCalls is how many calls of one tenant may be late at once, before others of it fail at
	// once. A late call holds a worker for a second at most, and there are many more workers than
	// that.
	lateCalls = 4
	// restAfterCrowd is for how long after that a tenant may have no more calls than so many at
	// all. Those that begin at the same moment are none of them late yet.
	restAfterCrowd = 5 * time.Second
)

// tenantCalls are the calls on behalf of a tenant that are on their way.
type tenantCalls struct {
	outstanding, late int
	// crowdedAt is when too many were late for the last time.
	crowdedAt time.Time
}

func (c *tenantCalls) crowded() bool { return time.Since(c.crowdedAt) < restAfterCrowd }

// admit counts a call, unless there are too many that may take long.
func (c *tenantCalls) admit() bool {
	if c.late >= lateCalls || c.outstanding >= lateCalls && c.crowded() {
		return false
	}
	c.outstanding++
	return true
}

// admitCall is admit for a tenant. It is called with the lock held. Nobody in particular may have
// any number of calls.
func (p *Pool) admitCall(tenant string) bool {
	if tenant == "" {
		return true
	}
	of := p.calls[tenant]
	if of == nil {
		of = &tenantCalls{}
		p.calls[tenant] = of
	}
	return of.admit()
}

// endCall ends what admitCall began.
func (p *Pool) endCall(tenant string) {
	if tenant == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[tenant].outstanding--
}

// countLate keeps how many calls of a tenant are late. Each counts both ways.
func (p *Pool) countLate(tenant string, more int) {
	if tenant == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.calls[tenant]
	of.late += more
	if of.late >= lateCalls {
		of.crowdedAt = time.Now()
	}
}

// forgetTenants drops those who do not call. It is called with the lock held.
func (p *Pool) forgetTenants() {
	for tenant, of := range p.calls {
		if of.outstanding == 0 && of.late == 0 && !of.crowded() {
			delete(p.calls, tenant)
		}
	}
}
