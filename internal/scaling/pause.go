// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import "time"

const (
	// FirstPause is the length of the first pause. Each further pause is twice as long.
	FirstPause = 10 * time.Second
	// LongestPause is the maximum length of a pause.
	LongestPause = 5 * time.Minute
	// jobsBeforePause is the number of consecutive Jobs that fail or make no progress after which creation pauses.
	jobsBeforePause = 3
	// forgetAfter is how long after the end of a pause a further problem counts as new, so that it starts with
	// FirstPause again.
	forgetAfter = 10 * time.Minute
)

// PauseReason is why creation is paused. The values are reasons of the condition ScalingLimited.
type PauseReason string

// The reasons of pauses.
const (
	// NotPaused means that creation is not paused.
	NotPaused PauseReason = ""
	// JobsFailing means that the last three Jobs to finish have failed.
	JobsFailing PauseReason = "JobsFailing"
	// NoProgress means that three Jobs were created and finished while no message left the queue.
	NoProgress PauseReason = "NoProgress"
	// CreateRefused means that the API server refused to create a Job.
	CreateRefused PauseReason = "CreateRefused"
)

// Finish describes how a Job finished.
type Finish struct {
	// Ordinal is the ordinal of the Job. Later Jobs have higher ordinals.
	Ordinal int64
	// Failed is true if the Job failed, and false if it succeeded.
	Failed bool
	// At is when the Job finished.
	At time.Time
}

// QueueState is the observed state of all queues of a ScaledJob.
type QueueState struct {
	// Depth is the number of outstanding messages.
	Depth int64
	// Heard is true if messages that come and leave can't go unnoticed: Redis sends notifications or reports the
	// progress of consumers. GrewAt and ShrunkAt are when a notification last reported that the queue grew or shrank,
	// and Since is when the current subscription started. These times are only compared with those of earlier states.
	Heard            bool
	GrewAt, ShrunkAt time.Time
	Since            time.Time
	// Progress describes how far the consumers have read, if Redis reports it. It is only compared with that of earlier
	// states.
	Progress string
	// Newest is the highest ordinal that any Job had when the queue was observed, and At is when that was.
	Newest int64
	At     time.Time
}

// Pause pauses the creation of Jobs of one ScaledJob. The zero value pauses nothing. It is not safe for concurrent use.
type Pause struct {
	// wasted are the pauses after Jobs that failed or made no progress, and reason is which of these. refused are the
	// pauses after refused creates. Neither kind ends the other.
	wasted  pauses
	reason  PauseReason
	refused pauses
	// retry is true if one create may be tried before the end of a pause after a refusal, because a Job has finished or
	// disappeared.
	retry bool

	// failures is the number of consecutive failed Jobs.
	failures int
	// succeeded and shrunk are true if since the start of the last pause a Job succeeded, and messages left the queue.
	succeeded, shrunk bool

	// seen is the last observed state of the queue; nil before the first. blind is true if a later observation failed.
	seen  *QueueState
	blind bool
	// newestAtChange is the highest ordinal at the last observation after which messages may have left. idle is the
	// number of later Jobs that have finished.
	newestAtChange int64
	idle           int
	// stillSince is when the queue was last observed so that messages may have left; at first when it was first observed.
	stillSince time.Time
}

// ResumePause restores the pause after a restart. was and since are the reason and start of the pause according to the
// status. finishes are the Jobs that have finished, oldest first; those after since show how often the pause was
// extended.
func ResumePause(was PauseReason, since time.Time, finishes []Finish, now time.Time) Pause {
	var c Pause
	if was != JobsFailing && was != NoProgress {
		return c
	}
	c.reason, c.failures = was, jobsBeforePause
	c.wasted.begin(earlier(since, now))
	for _, f := range finishes {
		if f.At.After(since) && (f.Failed || was == NoProgress) {
			at := earlier(f.At, now)
			c.forget(at)
			c.reason = was
			c.wasted.begin(at)
		}
	}
	return c
}

// earlier returns the earlier of two times. It guards against times from a clock that is ahead.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Saw processes an observation of the queue.
func (p *Pause) Saw(q QueueState) {
	before, blind := p.seen, p.blind
	p.seen, p.blind = &q, false
	if before == nil {
		p.newestAtChange, p.idle, p.stillSince = q.Newest, 0, q.At
		return
	}
	shrunk := q.Depth < before.Depth || q.ShrunkAt.After(before.ShrunkAt) || q.Progress != before.Progress
	if shrunk || q.mayHaveShrunk(*before, blind) {
		p.newestAtChange, p.idle, p.stillSince = q.Newest, 0, q.At
		p.endIfUnfounded(q, *before)
	}
	p.shrunk = p.shrunk || shrunk
	p.endIfRecovered()
}

// mayHaveShrunk reports whether messages may have left since the previous observation although the depth did not fall:
// because no notification would have reported that, or because messages arrived at an empty queue, where waiting
// workers take them immediately.
func (q QueueState) mayHaveShrunk(before QueueState, blind bool) bool {
	empty := before.Depth == 0 || q.Depth == 0
	if q.Heard && before.Heard && q.Since.Equal(before.Since) {
		return empty && (q.Depth != before.Depth || q.GrewAt.After(before.GrewAt))
	}
	return empty || blind || q.Depth != before.Depth || !q.Since.Equal(before.Since)
}

// endIfUnfounded ends a pause for NoProgress if its basis is gone: the queue was empty and no longer is, or the
// subscription of that time has ended and may have missed notifications.
func (p *Pause) endIfUnfounded(q, before QueueState) {
	if p.reason == NoProgress && (before.Depth == 0 || !q.Since.Equal(before.Since)) {
		p.end()
	}
}

// StillSince returns since when no message has left the queue, as far as observations show.
func (p *Pause) StillSince() time.Time { return p.stillSince }

// Unseen records that the queue could not be observed.
func (p *Pause) Unseen() { p.blind = true }

// Finished processes the Jobs that have finished since the last call, oldest first. Call it after Saw.
func (p *Pause) Finished(finishes []Finish, now time.Time) {
	if len(finishes) == 0 {
		return
	}
	p.forget(now)
	for _, f := range finishes {
		p.count(f)
	}
	p.endIfRecovered()
	switch {
	case p.failures >= jobsBeforePause:
		p.pause(JobsFailing, now)
	case p.idle >= jobsBeforePause:
		p.pause(NoProgress, now)
	}
}

func (p *Pause) count(f Finish) {
	if p.seen != nil && !p.blind && f.Ordinal > p.newestAtChange {
		p.idle++
	}
	if f.Failed {
		p.failures++
	} else {
		p.failures, p.succeeded = 0, true
	}
}

// pause starts a pause unless one is running. So the next pause is only one step longer, however many Jobs finish
// during this one.
func (p *Pause) pause(why PauseReason, now time.Time) {
	if p.wasted.begin(now) {
		p.reason, p.succeeded, p.shrunk = why, false, false
	}
}

// endIfRecovered ends the pauses if a Job succeeded and messages left the queue.
func (p *Pause) endIfRecovered() {
	if p.succeeded && p.shrunk {
		p.end()
	}
}

// end ends the pauses after Jobs that failed or made no progress.
func (p *Pause) end() { p.wasted, p.reason = pauses{}, NotPaused }

// Refused records that the API server refused to create a Job.
func (p *Pause) Refused(now time.Time) {
	p.forget(now)
	p.retry = false
	p.refused.begin(now)
}

// Accepted records that the API server created all requested Jobs.
func (p *Pause) Accepted() { p.refused, p.retry = pauses{}, false }

// MadeRoom records that a Job has finished or disappeared, so that a quota may have room for another one.
func (p *Pause) MadeRoom() { p.retry = true }

// forget resets pauses that ended long ago.
func (p *Pause) forget(now time.Time) {
	if p.wasted.forgotten(now) {
		p.end()
	}
	if p.refused.forgotten(now) {
		p.refused = pauses{}
	}
}

// Holds reports whether creation is paused now, and until when.
func (p *Pause) Holds(now time.Time) (until time.Time, holds bool) {
	until = p.wasted.until
	if !p.retry && p.refused.until.After(until) {
		until = p.refused.until
	}
	return until, now.Before(until)
}

// Reason returns why creation is paused, or will be again if the next Jobs also fail or make no progress. It keeps the
// reason until there is progress, or until forgetAfter has passed since the end of the last pause.
func (p *Pause) Reason(now time.Time) PauseReason {
	switch {
	case p.wasted.level > 0 && !p.wasted.forgotten(now):
		return p.reason
	case p.refused.level > 0 && !p.refused.forgotten(now):
		return CreateRefused
	}
	return NotPaused
}

// pauses are the pauses for one cause, each longer than the one before.
type pauses struct {
	// level is the number of pauses. until is when the current or last pause ends.
	level int
	until time.Time
}

// begin starts a pause and returns true, unless one is running.
func (p *pauses) begin(now time.Time) bool {
	if now.Before(p.until) {
		return false
	}
	delay := FirstPause
	for range p.level {
		delay = min(2*delay, LongestPause)
	}
	p.level++
	p.until = now.Add(delay)
	return true
}

// forgotten reports whether the last pause ended so long ago that it no longer counts.
func (p *pauses) forgotten(now time.Time) bool {
	return p.level > 0 && now.Sub(p.until) >= forgetAfter
}
