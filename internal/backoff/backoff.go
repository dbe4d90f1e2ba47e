// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff judges when creating more Jobs is of no use for the time being: the last ones failed, or ended without taking a
// message, or the API server refuses them. Creating then pauses, for longer each time. It is pure: it knows no clock, no Kubernetes and
// no Redis.
package backoff

import "time"

const (
	// FirstDelay is for how long creating pauses at first. Each further pause is twice as long.
	FirstDelay = 10 * time.Second
	// LongestDelay is the longest pause.
	LongestDelay = 5 * time.Minute
	// enough is how many Jobs in a row have to come to nothing.
	enough = 3
	// forgetAfter is how long after a pause the next trouble counts as new.
	forgetAfter = 10 * time.Minute
)

// Reason says why creating pauses. Its values are the reasons of the status condition that reports them.
type Reason string

// The reasons.
const (
	// None means that there is nothing to wait for.
	None Reason = ""
	// JobsFailing means that the last three Jobs to finish have failed.
	JobsFailing Reason = "JobsFailing"
	// NoProgress means that three Jobs came and went, and no message left the queue in all that time.
	NoProgress Reason = "NoProgress"
	// CreateRefused means that the API server refused to create a Job.
	CreateRefused Reason = "CreateRefused"
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

// Queue is what was seen of a queue.
type Queue struct {
	// Depth is how many messages are outstanding.
	Depth int64
	// Heard says that every message which leaves is announced. ShrunkAt is when that was last heard, and Since is since when it has been
	// listened for; both are only compared with earlier ones.
	Heard    bool
	ShrunkAt time.Time
	Since    time.Time
	// Newest is the highest ordinal that any Job had by then.
	Newest int64
}

// Creation is the back-off of creating Jobs for one queue. The zero value pauses nothing. It is not safe for concurrent use.
type Creation struct {
	// reason is why creating pauses, or paused last; level counts the pauses, and until is when the present or last one ends.
	reason Reason
	level  int
	until  time.Time
	// retry says that one attempt is due before that, since something has changed.
	retry bool
	// succeeded and shrunk tell what has happened since the last pause began: a Job succeeded, messages left the queue.
	succeeded, shrunk bool

	// failures is how many Jobs have failed in a row.
	failures int
	// seen is the queue as it was last seen, nil if it is unknown. Since it held the Job numbered quietSince as its newest, no
	// message has left it; idle is how many Jobs have come and gone in that time.
	seen       *Queue
	quietSince int64
	idle       int
}

// Resume is the back-off of a process that has just started. was is the reason that was reported last: without one there was no pause. With
// one, what became of the Jobs that are still there, in order of time, tells how long the pauses were; whether those Jobs took messages
// can't be seen any more.
func Resume(finishes []Finish, was Reason, now time.Time) Creation {
	var c Creation
	switch was {
	case NoProgress:
		c.seen = &Queue{}
	case JobsFailing:
	default: // Not all Jobs are kept: those that failed may look as if nothing had succeeded in between.
		return c
	}
	for _, f := range finishes {
		c.shrunk = was == JobsFailing
		if f.At.After(now) { // By a clock that is ahead of ours.
			f.At = now
		}
		c.Finished(f)
	}
	c.Unseen()
	return c
}

// Saw tells of a look at the queue.
func (c *Creation) Saw(q Queue) {
	before := c.seen
	c.seen = &q
	if before == nil {
		c.quiet(q.Newest)
		return
	}
	shrunk := q.Depth < before.Depth || q.ShrunkAt.After(before.ShrunkAt)
	filled := before.Depth == 0 && q.Depth > 0
	deaf := !q.Since.Equal(before.Since) || q.Heard != before.Heard || !q.Heard && q.Depth != before.Depth
	if shrunk || filled || deaf {
		c.quiet(q.Newest)
	}
	if filled && c.reason == NoProgress {
		c.end() // There was nothing to take.
	}
	c.shrunk = c.shrunk || shrunk
	c.endIfRecovered()
}

// Unseen tells that the queue could not be looked at.
func (c *Creation) Unseen() {
	c.seen = nil
	c.idle = 0
}

// quiet notes that messages may have left until now, when this was the newest Job.
func (c *Creation) quiet(newest int64) {
	c.quietSince, c.idle = newest, 0
}

// Finished tells that a Job has finished. The Jobs are told of in the order in which they finished, after the look at the queue.
func (c *Creation) Finished(f Finish) {
	c.forget(f.At)
	c.retry = c.reason == CreateRefused // It may have made room for another.
	if c.seen != nil && f.Ordinal > c.quietSince {
		c.idle++
	}
	if f.Failed {
		c.failures++
	} else {
		c.failures, c.succeeded = 0, true
		c.endIfRecovered()
	}
	switch {
	case c.failures >= enough:
		c.pause(JobsFailing, f.At)
	case c.idle >= enough:
		c.pause(NoProgress, f.At)
	}
}

// Refused tells that the API server refused to create a Job.
func (c *Creation) Refused(at time.Time) {
	c.forget(at)
	c.retry = false
	c.pause(CreateRefused, at)
}

// Accepted tells that the API server created a Job.
func (c *Creation) Accepted() {
	if c.reason == CreateRefused {
		c.end()
	}
}

// Holds says whether creating pauses now, and until when.
func (c *Creation) Holds(now time.Time) (until time.Time, holds bool) {
	return c.until, now.Before(c.until) && !c.retry
}

// Reason is why creating pauses now, or did so until a moment ago: it stays until there is progress, or nothing has gone wrong for long.
func (c *Creation) Reason(now time.Time) Reason {
	c.forget(now)
	return c.reason
}

// pause begins a pause, unless there is one: however many Jobs fail in it, the next is one step longer.
func (c *Creation) pause(why Reason, at time.Time) {
	if at.Before(c.until) {
		return
	}
	c.reason = why
	c.until = at.Add(delay(c.level))
	c.level++
	c.succeeded, c.shrunk = false, false
}

// delay is how long a pause is after so many before.
func delay(level int) time.Duration {
	d := FirstDelay
	for range level {
		d = min(2*d, LongestDelay)
	}
	return d
}

// endIfRecovered ends the back-off if there is progress: a Job succeeded, and messages left the queue.
func (c *Creation) endIfRecovered() {
	if c.succeeded && c.shrunk {
		c.end()
	}
}

// forget ends the back-off if all has been well for long.
func (c *Creation) forget(now time.Time) {
	if c.reason != None && now.Sub(c.until) >= forgetAfter {
		c.end()
	}
}

func (c *Creation) end() {
	c.reason, c.level, c.until, c.retry = None, 0, time.Time{}, false
}
