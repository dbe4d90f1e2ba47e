// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"
	"time"
)

// FuzzPause runs any sequence of observations, finished Jobs, refusals and times, with finish times from another clock.
// A pause is never longer than LongestPause, and always has a reason and a cause.
func FuzzPause(f *testing.F) {
	f.Add([]byte{0x11, 0x21, 0x31, 0x41, 0x51, 0x61}, int64(0))
	f.Add([]byte{0x42, 0x42, 0x42, 0x07, 0x42, 0x07, 0x42}, int64(-7200))
	f.Add([]byte{0x52, 0x0f, 0x52, 0x0f, 0x52, 0x6f, 0x52}, int64(7200))
	f.Add([]byte{0x10, 0x33, 0x33, 0x33, 0x0e, 0x33, 0x33, 0x33}, int64(1<<40))
	f.Fuzz(func(t *testing.T, acts []byte, skew int64) {
		c, queue, now := Pause{}, QueueState{Reliable: true, Since: start}, start
		caused := false
		for _, act := range acts {
			much := int64(act & 0xf)
			queue.At = now
			switch act >> 4 {
			case 0:
				now = now.Add(time.Duration(much) * time.Minute)
			case 1:
				queue.Depth = much
				c.Saw(queue)
			case 2:
				queue.ShrunkAt, queue.Newest = now, queue.Newest+much
				c.Saw(queue)
			case 3, 4:
				queue.Newest++
				finish := Finish{Ordinal: queue.Newest - much, Failed: act>>4 == 4, At: now.Add(time.Duration(skew) * time.Second)}
				c.Finished([]Finish{finish}, now)
				caused = true
			case 5:
				allowed := c.Allowed(much, much/2, now)
				c.Created(make([]int64, allowed), much, much/2, now)
			case 6:
				queue.InProgress, queue.Active = much, queue.Newest%16
				c.Saw(queue)
			case 7:
				queue.Tracked, queue.Unchanged = !queue.Tracked, now
				c.Saw(queue)
			case 8:
				c.ReadFailed()
			}
			expectSensible(t, &c, now, caused)
		}
	})
}

// FuzzResumePause starts with any status, written by any clock: the next probe is due within ProbeInterval, and there
// is no pause that the status does not report.
func FuzzResumePause(f *testing.F) {
	f.Add("JobsFailing", int64(-5))
	f.Add("NoProgress", int64(7200))
	f.Add("JobsFailing", int64(-1<<60))
	f.Add("CreateRefused", int64(0))
	f.Add("AtMaxReplicas", int64(0))
	f.Add("MessagesOrphaned", int64(1<<60))
	f.Fuzz(func(t *testing.T, why string, due int64) {
		at := time.Unix(due, 0).Add(time.Duration(start.Unix()) * time.Second)
		c := ResumePause(PauseReason(why), at, start)
		expectSensible(t, &c, start, why == string(JobsFailing) || why == string(NoProgress))
	})
}

// expectSensible expects that a pause is not too long, and has a cause.
func expectSensible(t *testing.T, c *Pause, now time.Time, caused bool) {
	t.Helper()
	allowed := c.Allowed(9, 4, now)
	switch until := c.Until(now); {
	case until.Sub(now) > ProbeInterval:
		t.Fatalf("creation is paused for %v, which is too long", until.Sub(now))
	case c.All() && !caused:
		t.Fatal("creation is paused without a cause")
	case allowed < 4 && !c.All() || allowed > 9 || allowed < 9 && c.Reason() == NotPaused:
		t.Fatalf("%d Jobs may be created, because of %q", allowed, c.Reason())
	}
}
