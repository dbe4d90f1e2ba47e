// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// answerLife is how long an answer counts. A master that no sentinel has named for so long is not used: there may be
	// a new one by now. It is longer than the timeout of a question and the time until the next. The answer of a sentinel
	// that may make another server the master sooner counts for less, but at least for leastLife.
	answerLife = 5 * time.Second
	leastLife  = 3 * askInterval
)

// answer is what a server has said last.
type answer struct {
	// from is the address of the server.
	from string
	// asked is when the question was sent, and tried when the last one was, with or without an answer.
	asked, tried time.Time
	// by is what a sentinel says, and others are the addresses of the other sentinels that it knows. life is how long the
	// answer counts; 0 means answerLife.
	by     *naming
	others []other
	life   time.Duration
	// nodes is what a node of a Cluster says.
	nodes *nodes
	// err is why there was no answer since.
	err *failure.Error
}

// other is a sentinel that another one knows. id is its run ID, or its address if that is not told.
type other struct{ address, id string }

// peers returns the IDs of the servers that the server knows.
func (a answer) peers() (ids []string) {
	if a.nodes != nil {
		return a.nodes.masters
	}
	for _, its := range a.others {
		ids = append(ids, its.id)
	}
	return ids
}

// hasSaid reports whether there is an answer that counts.
func (a answer) hasSaid() bool { return a.by != nil || a.nodes != nil }

// old reports whether the answer does not count any longer.
func (a answer) old(now time.Time) bool { return since(a.asked, now) >= cmp.Or(a.life, answerLife) }

// since returns the time between two moments. While a machine is suspended, only the wall clock goes on.
func since(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// same reports whether the same follows from two answers.
func (a answer) same(as answer) bool {
	reason := func(err *failure.Error) failure.Reason {
		if err == nil {
			return ""
		}
		return err.Reason
	}
	return a.hasSaid() == as.hasSaid() && reason(a.err) == reason(as.err) && slices.Equal(a.others, as.others) &&
		(a.by == nil || *a.by == *as.by) && (a.nodes == nil || a.nodes.same(as.nodes))
}

// note takes an answer, unless its server is not asked any longer. After an error, what the server said before counts for
// a while.
func (f *follower) note(address string, by *poller, said answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pollers[address] != by {
		return
	}
	before := f.answers[address]
	if said.err != nil {
		said.asked, said.by, said.others, said.life, said.nodes = before.asked, before.by, before.others, before.life, before.nodes
	}
	said.from = address
	if !said.same(before) {
		f.noted++
		f.differs = true
		set(f.news)
	}
	f.answers[address] = said
	f.announce()
}

// announce wakes those who wait for answers. Call it with the lock held.
func (f *follower) announce() {
	close(f.heard)
	f.heard = make(chan struct{})
}

// recent returns the answers that count now, why others have none, how many servers are asked, whether each of them was
// asked already, and whether anything of this differs from before.
func (f *follower) recent(now time.Time) (said []answer, causes []*failure.Error, asked int, complete, differ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	complete = len(f.answers) == len(f.pollers)
	if len(f.pollers) == 0 {
		causes = append(causes, tooManyAsked())
	}
	for _, address := range slices.Sorted(maps.Keys(f.answers)) {
		each := f.answers[address]
		if each.hasSaid() && each.old(now) {
			each.by, each.others, each.nodes, f.differs = nil, nil, nil, true
			f.answers[address] = each
		}
		if each.hasSaid() {
			said = append(said, each)
		}
		if each.err != nil {
			causes = append(causes, f.aboutAsked(address, each.err))
		}
	}
	differ = f.differs || f.known.Load() == nil
	f.differs = false
	return said, causes, len(f.pollers), complete, differ
}

// aboutAsked returns why a server does not answer the question where keys are.
func (f *follower) aboutAsked(address string, cause *failure.Error) *failure.Error {
	if f.names(address) || !outOfReach(cause) {
		return cause
	}
	return f.announced(f.server(address), cause, cause)
}
