// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"time"
)

const (
	// FirstPause is for how long creating pauses at first. Each further pause is twice as long.
	FirstPause = 10 * time.Second
	// LongestPause is the longest pause.
	LongestPause = 5 * time.Minute
	// enough is how many Jobs in a row have to come to nothing.
	enough = 3
	// forgetAfter is how long after a pause further trouble counts as new.
	forgetAfter = 10 * time.Minute
)

// PauseReason says why creating pauses. Its values are the reasons of the status condition that reports them.
type PauseReason string

// The reasons.
const (
	// NotPaused means that there is nothing to wait for.
	NotPaused PauseReason = ""
	// JobsFailing means that the last three Jobs to finish have failed.
	JobsFailing PauseReason = "JobsFailing"
	// NoProgress means that three Jobs came and went, and no message left the queue in all that time.
	NoProgress PauseReason = "NoProgress"
	// CreateRefused means that the API server refused to create a Job.
	CreateRefused PauseReason = "CreateRefused"
)

// Finish is the end of a Job.
type Finish struct {
	// Ordinal is the number of the Job. Later Jobs have higher ones.
	Ordinal int64
	// Failed says that the Job has failed, and not succeeded.
	Failed bool
	// At is when that was.
	At time.Time
}

// QueueState is what was seen of a queue.
type QueueState struct {
	// Depth is how many messages are outstanding.
	Depth int64
	// Heard says that Redis announces when messages come and leave, or tells how far those have come who take them. GrewAt and ShrunkAt are when either was last announced, and Since is
	// when the present subscription began. All three are only compared with those of earlier looks.
	Heard            bool
	GrewAt, ShrunkAt time.Time
	Since            time.Time
	// Progress says how far those have come who take messages, where Redis tells that. It is only compared too.
	Progress string
	// Newest is the highest ordinal that any Job had by then.
	Newest int64
}

// Pause pauses the creation of Jobs for one queue. The zero value pauses nothing. It is not safe for concurrent use.
type Pause struct {
	// fruitless are the pauses after Jobs that came to nothing, and reason says in which way. refused are those after refusals: neither
	// ends the other.
	fruitless pauses
	reason    PauseReason
	refused   pauses
	// retry says that one attempt is due before the end of a pause after a refusal, since something has changed.
	retry bool

	// failures is how many Jobs have failed in a row.
	failures int
	// succeeded and shrunk tell what has happened since the last pause began: a Job succeeded, messages left the queue.
	succeeded, shrunk bool

	// seen is the queue as it was last seen, nil before, and blind says that it could not be seen since.
	seen  *QueueState
	blind bool
	// newestAtChange is the highest ordinal at the last look by which messages may have left. idle is how many later Jobs have finished.
	newestAtChange int64
	idle           int
}

// ResumePause is the pause of a process that has just started. The status still tells the reason of the one before, and since when; if it
// tells none, there was no pause. The Jobs that have finished since, in the order of time, tell how many pauses there were.
func ResumePause(was PauseReason, since time.Time, finishes []Finish, now time.Time) Pause {
	var c Pause
	if was != JobsFailing && was != NoProgress {
		return c
	}
	c.reason, c.failures = was, enough
	c.fruitless.begin(earlier(since, now))
	for _, f := range finishes {
		if f.At.After(since) && (f.Failed || was == NoProgress) {
			at := earlier(f.At, now)
			c.forget(at)
			c.reason = was
			c.fruitless.begin(at)
		}
	}
	return c
}

// earlier is the first of two times. One may be by a clock that is ahead of ours.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Saw tells of a look at the queue.
func (c *Pause) Saw(q QueueState) {
	before, blind := c.seen, c.blind
	c.seen, c.blind = &q, false
	if before == nil {
		c.newestAtChange, c.idle = q.Newest, 0
		return
	}
	shrunk := q.Depth < before.Depth || q.ShrunkAt.After(before.ShrunkAt) || q.Progress != before.Progress
	if shrunk || q.leavesDoubt(*before, blind) {
		c.newestAtChange, c.idle = q.Newest, 0
		c.endIfUnfounded(q, *before)
	}
	c.shrunk = c.shrunk || shrunk
	c.endIfRecovered()
}

// leavesDoubt says whether messages may have been taken since the look before although the depth did not fall: nobody would have heard of
// it, or they came to an empty queue, and who waits there takes them at once.
func (q QueueState) leavesDoubt(before QueueState, blind bool) bool {
	empty := before.Depth == 0 || q.Depth == 0
	if q.Heard && before.Heard && q.Since.Equal(before.Since) {
		return empty && (q.Depth != before.Depth || q.GrewAt.After(before.GrewAt))
	}
	return empty || blind || q.Depth != before.Depth || !q.Since.Equal(before.Since)
}

// endIfUnfounded ends pauses for a lack of progress if that was seen of an empty queue, which is none any more, or was heard by a
// subscription that is none any more: it may have been deaf.
func (c *Pause) endIfUnfounded(q, before QueueState) {
	if c.reason == NoProgress && (before.Depth == 0 || !q.Since.Equal(before.Since)) {
		c.end()
	}
}

// Unseen tells that the queue could not be looked at.
func (c *Pause) Unseen() { c.blind = true }

// Finished tells of Jobs that have finished since the last call, in the order of time, after the look at the queue.
func (c *Pause) Finished(finishes []Finish, now time.Time) {
	if len(finishes) == 0 {
		return
	}
	c.forget(now)
	for _, f := range finishes {
		c.count(f)
	}
	c.endIfRecovered()
	switch {
	case c.failures >= enough:
		c.pause(JobsFailing, now)
	case c.idle >= enough:
		c.pause(NoProgress, now)
	}
}

func (c *Pause) count(f Finish) {
	if c.seen != nil && !c.blind && f.Ordinal > c.newestAtChange {
		c.idle++
	}
	if f.Failed {
		c.failures++
	} else {
		c.failures, c.succeeded = 0, true
	}
}

// pause begins a pause, unless there is one: however many Jobs come to nothing in it, the next is one step longer.
func (c *Pause) pause(why PauseReason, now time.Time) {
	if c.fruitless.begin(now) {
		c.reason, c.succeeded, c.shrunk = why, false, false
	}
}

// endIfRecovered ends the pauses if there is progress: a Job succeeded, and messages left the queue.
func (c *Pause) endIfRecovered() {
	if c.succeeded && c.shrunk {
		c.end()
	}
}

// end ends the pauses for Jobs that came to nothing.
func (c *Pause) end() { c.fruitless, c.reason = pauses{}, NotPaused }

// Refused tells that the API server refused to create a Job.
func (c *Pause) Refused(now time.Time) {
	c.forget(now)
	c.retry = false
	c.refused.begin(now)
}

// Accepted tells that the API server created all Jobs that it was asked for.
func (c *Pause) Accepted() { c.refused, c.retry = pauses{}, false }

// MadeRoom tells that a Job has finished or gone: a quota may have room for another.
func (c *Pause) MadeRoom() { c.retry = true }

// forget ends what has been well for long.
func (c *Pause) forget(now time.Time) {
	if c.fruitless.forgotten(now) {
		c.end()
	}
	if c.refused.forgotten(now) {
		c.refused = pauses{}
	}
}

// Holds says whether creating pauses now, and until when.
func (c *Pause) Holds(now time.Time) (until time.Time, holds bool) {
	until = c.fruitless.until
	if !c.retry && c.refused.until.After(until) {
		until = c.refused.until
	}
	return until, now.Before(until)
}

// Reason is why creating pauses, or will again if the next Jobs come to nothing too. It stays until there is progress, or nothing has
// gone wrong for ten minutes after a pause.
func (c *Pause) Reason(now time.Time) PauseReason {
	switch {
	case c.fruitless.level > 0 && !c.fruitless.forgotten(now):
		return c.reason
	case c.refused.level > 0 && !c.refused.forgotten(now):
		return CreateRefused
	}
	return NotPaused
}

// pauses are pauses for one cause, each longer than the one before.
type pauses struct {
	// level counts them, and until is when the present or last one ends.
	level int
	until time.Time
}

// begin begins a pause, unless there is one.
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

// forgotten says whether the last pause ended so long ago that it does not count any more.
func (p *pauses) forgotten(now time.Time) bool {
	return p.level > 0 && now.Sub(p.until) >= forgetAfter
}
