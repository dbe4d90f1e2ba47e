// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"container/heap"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

const (
	// readSpacing is the time between two reads of one key at least, and quietSpacing while nobody can use its growth,
	// while nothing changes, or while those who watch it take too many messages.
	readSpacing, quietSpacing = 25 * time.Millisecond, time.Second
	// quietReplies is how many equal lengths in a row are taken for growth. A server whose table of tracked keys is full
	// sends invalidations although nothing has changed.
	quietReplies = 3
	// firstPause is how long keys are not tracked after a short session. It doubles after each further one.
	firstPause = 250 * time.Millisecond
	// unknownLength is that of a key of another type than expected. Redis tracks such a key as well.
	unknownLength = -1
)

// readCommands are the commands that read the length of a key.
var readCommands = map[verify.Class]string{
	verify.ClassList: "llen", verify.ClassStream: "xlen", verify.ClassSortedSet: "zcard", verify.ClassSet: "scard",
	verify.ClassHash: "hlen",
}

// readState is the state of a key that may be tracked.
type readState int

const (
	unwanted readState = iota // nobody wants the key to be tracked
	invalid                   // to be read when due
	inFlight                  // the read was sent and has no reply yet
	valid                     // read; the server reports the next change
	refused                   // the read was rejected; repeated when due
)

// reading is the second column of a key.
type reading struct {
	state readState
	// tracked means that the key was read in this session, and is read again after each change. confirmed means on
	// the current connection of the session.
	tracked, confirmed bool
	// length is the last reply of this session, and equal how many replies in a row had the same length.
	length int64
	equal  int
	// overdrawn means that all namespaces that watch the key have taken too many messages.
	overdrawn bool
	// seenAt is when its length last came, or a change of it was reported.
	seenAt time.Time
	// sentAt is when the read was last sent. due is when it is to be read, if it has an index in the queue of reads.
	sentAt, due time.Time
	index       int
}

// notDue is the index of a key that is not in the queue of reads.
const notDue = -1

// readings is the part of a [Node] about the second column.
type readings struct {
	readQueue readQueue
	// tracks is how many keys are to be tracked.
	tracks int
	// trackAt is when tracking may begin, after the server has refused it, or after short sessions: one that has ended
	// leaves its ID in the memory of the server, under each key that it has read and that has not changed since.
	trackAt    time.Time
	trackPause time.Duration
	// trackedAt is when this session began to track keys.
	trackedAt time.Time
	proven    bool
}

// planReading decides whether a key must be read.
func (n *Node) planReading(k *key) {
	wanted := k.wanted(tracked)
	switch {
	case wanted && k.read.state == unwanted:
		if n.tracks++; n.tracks == 1 {
			n.options.Recorder.Tracked(n.options.Name, n.options.Database, false)
		}
		k.read.state = invalid
		n.schedule(k, time.Time{})
	case !wanted && k.read.state != unwanted:
		if n.tracks--; n.tracks == 0 {
			n.options.Recorder.Untracked(n.options.Name, n.options.Database)
		}
		n.unschedule(k)
		k.read = reading{index: notDue}
		n.changed.Set()
	}
	n.pace(k)
}

// pace sets when a key is read that is to be read.
func (n *Node) pace(k *key) {
	if k.read.index != notDue && k.read.confirmed && k.read.state == invalid {
		n.schedule(k, k.read.sentAt.Add(n.spacing(k)))
	}
}

func (n *Node) spacing(k *key) time.Duration {
	blocked := true
	for _, w := range k.watchers {
		blocked = blocked && (w.blocked || !w.Track)
	}
	if blocked || k.read.equal >= quietReplies || k.read.overdrawn {
		return quietSpacing
	}
	return readSpacing
}

// interest returns how a key is read: with the command for one of those who want it, and after ASKING if one of them
// says so.
func (k *key) interest() (class verify.Class, asking bool) {
	for _, w := range k.watchers {
		if w.Track {
			class, asking = max(class, w.Class), asking || w.Asking
		}
	}
	return class, asking
}

// takeDue returns up to maxBatch keys to read now.
func (n *Node) takeDue(now time.Time) (keys []*key) {
	for len(keys) < maxBatch && len(n.readQueue) > 0 && !now.Before(n.readQueue[0].read.due) {
		k := n.readQueue[0]
		n.unschedule(k)
		k.read.state, k.read.sentAt = inFlight, now
		keys = append(keys, k)
	}
	return keys
}

// lengthRead records the length of a key, which the server tracks now. It wakes those who watch it, because the key may
// have changed since it was last read. An equal length may hide that one element was added and another one removed, so
// it counts as growth, but not always.
func (n *Node) lengthRead(name string, length int64) {
	k := n.keys[name]
	if k == nil || k.read.state != inFlight {
		return
	}
	cause := coalesce.Growth
	if length == k.read.length && k.read.confirmed {
		k.read.equal++
	} else {
		k.read.equal = 0
	}
	switch {
	case !k.read.confirmed:
		cause = coalesce.Confirmed
		k.read.tracked, k.read.confirmed = true, true
	case length < k.read.length || k.read.equal >= quietReplies:
		cause = coalesce.Shrink
	}
	now := time.Now()
	k.read.state, k.read.length, k.read.seenAt = valid, length, now
	k.read.overdrawn = n.overdrawn(k, now)
	n.wake(k, tracked, cause)
}

// overdrawn charges a reply to the namespaces that track the key. It reports whether all of them have taken too many.
func (n *Node) overdrawn(k *key, now time.Time) (all bool) {
	all = true
	for id, w := range k.watchers {
		if w.Track {
			all = !n.options.Budgets.Charge(id.Namespace, now) && all
		}
	}
	return all
}

// refuse records that the server rejected a read: the key is not tracked. The read is repeated after a while.
func (n *Node) refuse(name string, after time.Duration) {
	k := n.keys[name]
	if k == nil || k.read.state != inFlight {
		return
	}
	if k.read.tracked {
		n.wake(k, tracked, coalesce.Lost)
	}
	k.read.tracked, k.read.confirmed = false, false
	k.read.state = refused
	n.schedule(k, time.Now().Add(after))
}

// invalidated records that the server reported a change of a key, and tracks it no longer. It reports whether the
// length was valid. If not, nobody asked for the message. Redis also tracks a key whose read it rejected.
func (n *Node) invalidated(k *key) (wasValid bool) {
	if k == nil || k.read.state != valid && k.read.state != refused {
		return false
	}
	wasValid = k.read.state == valid
	k.read.state, k.read.seenAt = invalid, time.Now()
	n.schedule(k, k.read.sentAt.Add(n.spacing(k)))
	return wasValid
}

// invalidate handles a message about changed keys: their names, or nil after a flush.
func (n *Node) invalidate(names any) error {
	n.invalidations()
	list, _ := names.([]any)
	expected, unsolicited := 0, 0
	if len(list) == 0 {
		unsolicited = 1 // Nothing limits how many of these a server sends.
	}
	if names == nil {
		for _, k := range n.keys {
			if n.invalidated(k) {
				expected++
			}
		}
	}
	for _, each := range list {
		name, _ := each.(string)
		if n.invalidated(n.keys[name]) {
			expected++
		} else {
			unsolicited++
		}
	}
	if expected > 0 && !n.proven {
		n.proven = true
		n.wakeAllLocked()
	}
	return n.unsolicited(nil, unsolicited)
}

// track records the reply to CLIENT TRACKING ON. All keys are to be read on this connection.
func (n *Node) track() {
	n.options.Recorder.Tracked(n.options.Name, n.options.Database, true)
	if n.trackedAt.IsZero() {
		n.trackedAt = time.Now()
	}
	for _, k := range n.keys {
		if k.read.state != unwanted {
			k.read.state = invalid
			n.schedule(k, time.Time{})
		}
	}
}

// endTracking records the end of a session, and reports whether it has tracked keys.
func (n *Node) endTracking() (tracked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trackedAt.IsZero() {
		return false
	}
	n.options.Recorder.Tracked(n.options.Name, n.options.Database, false)
	if n.proven {
		n.proven = false
		n.wakeAllLocked()
	}
	n.trackPause = min(max(2*n.trackPause, firstPause), n.options.Timing.LongestPause)
	if time.Since(n.trackedAt) >= n.options.Timing.ShortSession {
		n.trackPause = 0
	}
	n.trackedAt, n.trackAt = time.Time{}, time.Now().Add(n.trackPause)
	return true
}

// end records the end of a connection.
func (r *reading) end(moves bool) {
	r.tracked = r.tracked && moves
	r.confirmed, r.equal = false, 0
	if r.state != unwanted {
		r.state = invalid
	}
}

// readQueue has the keys to read, the one that is due first at the front.
type readQueue []*key

// schedule gives a key its time.
func (n *Node) schedule(k *key, due time.Time) {
	k.read.due = due
	if k.read.index == notDue {
		heap.Push(&n.readQueue, k)
	} else {
		heap.Fix(&n.readQueue, k.read.index)
	}
	n.changed.Set()
}

func (n *Node) unschedule(k *key) {
	if k.read.index != notDue {
		heap.Remove(&n.readQueue, k.read.index)
	}
}

// Len implements [heap.Interface].
func (t readQueue) Len() int { return len(t) }

// Less implements [heap.Interface].
func (t readQueue) Less(i, j int) bool { return t[i].read.due.Before(t[j].read.due) }

// Swap implements [heap.Interface].
func (t readQueue) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].read.index, t[j].read.index = i, j
}

// Push implements [heap.Interface].
func (t *readQueue) Push(x any) {
	k, _ := x.(*key)
	k.read.index = len(*t)
	*t = append(*t, k)
}

// Pop implements [heap.Interface].
func (t *readQueue) Pop() any {
	last := len(*t) - 1
	k := (*t)[last]
	*t = (*t)[:last]
	k.read.index = notDue
	return k
}
