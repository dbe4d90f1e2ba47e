// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import "time"

const (
	// ProbeInterval is the average time between two probes at least: single Jobs that are created during a pause, to find
	// out whether its cause is gone.
	ProbeInterval = 30 * time.Second
	// ProbeBurst is how many probes may follow each other faster at first, and after a time without any.
	ProbeBurst = 4
	// ProbeDelay is the time between two probes at least, unless a message arrives.
	ProbeDelay = 10 * time.Second
)

// probes says how many Jobs may be created during a pause.
type probes struct {
	// last is when the last probe was created, or the pause began.
	last time.Time
	// rested is when ProbeBurst probes may follow each other again.
	rested time.Time
	// arrived is the number of messages that have arrived since the pause began, and for which there was no probe.
	arrived int64
	// earned is how many Jobs may be created at once, because others have succeeded.
	earned int64
}

// begin begins a pause. What was used up before stays used up.
func (p *probes) begin(now time.Time) { p.last, p.arrived, p.earned = now, 0, 0 }

// due returns when the next probe may be created although no message arrives.
func (p *probes) due() time.Time {
	due := p.rested.Add(-(ProbeBurst - 1) * ProbeInterval)
	if delayed := p.last.Add(ProbeDelay); delayed.After(due) {
		return delayed
	}
	return due
}

// left returns how many probes may follow each other now.
func (p *probes) left(now time.Time) int64 {
	used := max(0, p.rested.Sub(now))
	return max(0, int64((ProbeBurst*ProbeInterval-used)/ProbeInterval))
}

// allowed returns how many Jobs may be created now. If forArrivals is true, there may be one for each message that has
// arrived.
func (p *probes) allowed(now time.Time, forArrivals bool) (allowed int64) {
	if p.earned > 0 {
		return p.earned
	}
	if forArrivals {
		allowed = min(p.arrived, p.left(now))
	}
	if !now.Before(p.due()) {
		allowed = max(1, allowed)
	}
	return allowed
}

// created records that as many Jobs as allowed, or fewer, were created.
func (p *probes) created(n int64, now time.Time) {
	p.arrived = max(0, p.arrived-n)
	if p.earned > 0 {
		p.earned = max(0, p.earned-n)
		return
	}
	p.last = now
	if p.rested.Before(now) {
		p.rested = now
	}
	p.rested = p.rested.Add(time.Duration(min(n, ProbeBurst)) * ProbeInterval)
}

func (p *probes) arrive(messages int64) { p.arrived = add(p.arrived, messages) }

// earn lets two Jobs be created for each success, so that their number doubles while all succeed.
func (p *probes) earn(successes int64) { p.earned = add(p.earned, add(successes, successes)) }

// resume continues a pause whose next probe is due then. Times from a clock that is ahead are limited.
func (p *probes) resume(due, now time.Time) {
	if latest := now.Add(ProbeInterval); due.After(latest) {
		due = latest
	}
	if due.Before(now) {
		due = now
	}
	*p = probes{rested: due.Add((ProbeBurst - 1) * ProbeInterval)}
}
