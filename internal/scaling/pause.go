// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"math"
	"time"
)

const (
	// jobsBeforePause is the number of consecutive Jobs that fail or make no progress after which creation pauses.
	jobsBeforePause = 3
	// forgetAfter is how long after the last trouble a further one counts as new.
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
	// MessagesOrphaned means that messages are in progress that no unfinished Job can hold. Only the Jobs for them are
	// paused.
	MessagesOrphaned PauseReason = "MessagesOrphaned"
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
	// Depth is the number of outstanding messages. It is [math.MaxInt64] if there may be more than were counted.
	Depth int64
	// Waiting is the number of messages that wait for a worker.
	Waiting int64
	// InProgress is the number of Jobs that are due for messages in progress alone. Active is the number of unfinished
	// Jobs, and Probes has the ordinals of those that [Pause.Probes] has returned.
	InProgress, Active int64
	Probes             []int64
	// Reliable is true if messages that come and leave can't go unnoticed: Redis sends notifications or reports the
	// progress of consumers. GrewAt and ShrunkAt are when a notification last reported that the queue grew or shrank,
	// and Since is when the current subscription started. These times are only compared with those of earlier states.
	Reliable         bool
	GrewAt, ShrunkAt time.Time
	Since            time.Time
	// Tracked is true if Redis reports changes of the keys without their direction. Unchanged is since when it has
	// reported none; zero if it would not report the next one.
	Tracked   bool
	Unchanged time.Time
	// Progress describes how far the consumers have read, if Redis reports it. It is only compared with that of earlier
	// states.
	Progress string
	// Newest is the highest ordinal that any Job had when the queue was observed, and At is when that was.
	Newest int64
	At     time.Time
}

// Pause limits the creation of Jobs of one ScaledJob while they fail or make no progress, and of the Jobs for orphaned
// messages. During a pause, single Jobs are created as probes; each success lets two more be created, until all Jobs
// that are due have been. The zero value limits nothing. It is not safe for concurrent use.
type Pause struct {
	// reason is why all Jobs are limited; NotPaused if they are not. touched is when that was last confirmed. consumed is
	// true if failed Jobs have taken messages from the queue.
	reason   PauseReason
	touched  time.Time
	consumed bool
	probes   probes
	orphans  orphans

	// failures is the number of consecutive failed Jobs.
	failures int
	// seen is the last observed state of the queue; nil before the first. blind is true if a later observation failed.
	seen  *QueueState
	blind bool
	// newestAtChange is the highest ordinal at the last observation after which messages may have left, and
	// newestAtDeparture at the last one that shows that messages have left. idle is the number of Jobs later than the
	// former that have finished. unproven is true if such a Job has succeeded.
	newestAtChange, newestAtDeparture int64
	idle                              int
	unproven                          bool
	// stillSince is when the queue was last observed so that messages may have left; at first when it was first observed.
	stillSince time.Time
}

// ResumePause restores the pause after a restart. was is its reason, and next is when the next probe is due, according
// to the status.
func ResumePause(was PauseReason, next, now time.Time) Pause {
	var p Pause
	switch was {
	case JobsFailing, NoProgress:
		p.reason, p.touched = was, now
	case MessagesOrphaned:
		p.orphans.resumed = true
	default:
		return p
	}
	p.probes.resume(next, now)
	return p
}

// Saw processes an observation of the queue.
func (p *Pause) Saw(q QueueState) {
	before, blind := p.seen, p.blind
	p.seen, p.blind = &q, false
	if p.reason != NotPaused && q.At.Sub(p.touched) >= forgetAfter {
		p.end()
	}
	p.sawInProgress(q)
	if before == nil {
		p.newestAtChange, p.newestAtDeparture, p.idle, p.stillSince = q.Newest, q.Newest, 0, q.At
		return
	}
	p.sawArrivals(q, *before)
	left := q.hasShrunk(*before)
	if left {
		p.newestAtDeparture, p.consumed = q.Newest, true
	}
	if left || blind || q.mayHaveShrunk(*before) {
		p.newestAtChange, p.idle, p.stillSince = q.Newest, 0, q.At
		p.proveSuccess()
	}
}

// sawArrivals processes messages that have arrived since the previous observation.
func (p *Pause) sawArrivals(q, before QueueState) {
	if q.Depth > before.Depth && q.Depth != math.MaxInt64 {
		p.probes.arrive(q.Depth - before.Depth)
	}
	if p.reason == NoProgress && before.Depth == 0 && (q.Depth > 0 || q.GrewAt.After(before.GrewAt)) {
		p.end() // The Jobs had nothing to do, and now there is something.
	}
}

// sawInProgress tracks orphaned messages.
func (p *Pause) sawInProgress(q QueueState) {
	left := p.orphans.saw(q.InProgress, q.Active, q.Probes, q.At)
	switch {
	case p.reason != NotPaused:
	case p.orphans.known == 0: // Those that are left may be held by Jobs.
		p.probes.earned = 0
	default:
		p.probes.earn(left)
	}
}

// hasShrunk reports whether messages have left since the previous observation.
func (q QueueState) hasShrunk(before QueueState) bool {
	return q.Depth < before.Depth || q.ShrunkAt.After(before.ShrunkAt) || q.Progress != before.Progress
}

// mayHaveShrunk reports whether messages may have left since the previous observation although the depth did not fall:
// because nothing would have reported that, or because messages arrived at an empty queue, where waiting workers take
// them immediately.
func (q QueueState) mayHaveShrunk(before QueueState) bool {
	same := q.Depth == before.Depth
	switch {
	case q.Reliable && before.Reliable && q.Since.Equal(before.Since):
		return (before.Depth == 0 || q.Depth == 0) && (!same || q.GrewAt.After(before.GrewAt))
	case q.Tracked && before.Tracked:
		return !q.unchanged(before) && q.Depth != add(before.Depth, 1)
	default:
		return !same || !q.Since.Equal(before.Since)
	}
}

// unchanged reports whether it is sure that the keys have not changed since the previous observation.
func (q QueueState) unchanged(before QueueState) bool {
	return q.Depth == before.Depth && !q.Unchanged.IsZero() && q.Unchanged.Equal(before.Unchanged)
}

// StillSince returns since when no message has left the queue, as far as observations show.
func (p *Pause) StillSince() time.Time { return p.stillSince }

// ReadFailed records that the queue could not be observed.
func (p *Pause) ReadFailed() { p.blind = true }

// Finished processes the Jobs that have finished since the last call, oldest first. Call it after Saw.
func (p *Pause) Finished(finishes []Finish, now time.Time) {
	for _, f := range finishes {
		if p.reason != NotPaused || !p.orphans.isProbe(f.Ordinal) {
			p.count(f)
		}
	}
	switch {
	case len(finishes) == 0:
	case p.failures >= jobsBeforePause:
		p.begin(JobsFailing, now)
	case p.idle >= jobsBeforePause && p.foundOrphans():
		p.end()
	case p.idle >= jobsBeforePause:
		p.begin(NoProgress, now)
	}
}

// foundOrphans finds out whether Jobs made no progress because nothing is left for them but messages in progress. These
// are orphaned, and only the Jobs for them are limited from now on.
func (p *Pause) foundOrphans() bool {
	if p.seen == nil || p.seen.Waiting > 0 || p.orphans.excess(p.seen.InProgress, p.seen.Active) <= p.orphans.known {
		return false
	}
	p.orphans.find(p.seen.InProgress, p.seen.Active)
	return true
}

func (p *Pause) count(f Finish) {
	if p.seen != nil && !p.blind && f.Ordinal > p.newestAtChange {
		p.idle++
	}
	if f.Failed {
		p.failures++
		p.consumed = p.consumed && p.failures > 1 || f.Ordinal <= p.newestAtDeparture
		return
	}
	p.failures, p.unproven = 0, true
	if f.Ordinal <= p.newestAtChange {
		p.proveSuccess()
	}
}

// proveSuccess records that a message may have left the queue since the last Job that has succeeded was created.
func (p *Pause) proveSuccess() {
	if p.unproven && p.reason != NotPaused {
		p.probes.earn(1)
	}
	p.unproven = false
}

// begin begins a pause, or confirms that its cause persists.
func (p *Pause) begin(why PauseReason, now time.Time) {
	if p.reason == NotPaused {
		p.probes.begin(now)
		p.unproven = false
	}
	p.probes.earned = 0
	p.reason, p.touched = why, now
}

// end ends the pause of all Jobs.
func (p *Pause) end() {
	p.reason, p.idle, p.probes.earned = NotPaused, 0, 0
}

// Orphaned returns for how many Jobs there are orphaned messages.
func (p *Pause) Orphaned() int64 { return p.orphans.known }

// Probes returns the ordinals of the Jobs that were created for orphaned messages, as far as these were unfinished when
// the queue was last observed.
func (p *Pause) Probes() []int64 { return p.orphans.probes }

// Allowed returns how many of the Jobs that are due may be created now. free is how many of them are not due for
// orphaned messages.
func (p *Pause) Allowed(due, free int64, now time.Time) int64 {
	limited := p.limited(due, free)
	allowed := p.probes.allowed(now, p.reason != NotPaused)
	return due - limited + min(limited, allowed)
}

// limited returns how many of the Jobs that are due are limited.
func (p *Pause) limited(due, free int64) int64 {
	switch {
	case p.reason != NotPaused:
		return due
	case p.orphans.known > 0:
		return due - free
	default:
		return 0
	}
}

// Created records the ordinals of the Jobs that were created after Allowed was called with these numbers. If all were
// allowed because others have succeeded, it ends the pause.
func (p *Pause) Created(ordinals []int64, due, free int64, now time.Time) {
	unlimited, earned := due-p.limited(due, free), p.probes.earned
	switch {
	case earned > 0 && p.reason != NotPaused && earned >= free:
		p.end()
	case earned > 0 && p.reason == NotPaused && due > free && earned >= due-free:
		p.orphans, p.probes.earned = orphans{}, 0
	case int64(len(ordinals)) > unlimited:
		probes := ordinals[unlimited:]
		p.probes.created(int64(len(probes)), now)
		if p.reason == NotPaused {
			p.orphans.probes = append(p.orphans.probes, probes...)
		}
	}
}

// Reason returns why Jobs are limited.
func (p *Pause) Reason() PauseReason {
	if p.reason == NotPaused && (p.orphans.known > 0 || p.orphans.resumed) {
		return MessagesOrphaned
	}
	return p.reason
}

// Consumed reports whether failed Jobs have taken messages from the queue.
func (p *Pause) Consumed() bool { return p.consumed }

// Until returns when the next Job may be created although no message arrives; zero if Jobs are not limited, or if that
// may be now.
func (p *Pause) Until(now time.Time) time.Time {
	if due := p.probes.due(); p.Reason() != NotPaused && p.probes.earned == 0 && due.After(now) {
		return due
	}
	return time.Time{}
}

// All reports whether all Jobs are limited.
func (p *Pause) All() bool { return p.reason != NotPaused }

// Reacts reports whether a message that arrives now may get a Job at once.
func (p *Pause) Reacts(now time.Time) bool { return !p.All() || p.probes.left(now) > 0 }
