// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"context"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// askInterval is the time between two questions to a server, and leastInterval the time if something contradicts what
	// is known.
	askInterval   = time.Second
	leastInterval = 50 * time.Millisecond
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

// poller asks one server again and again.
type poller struct {
	// begin waits until the server may be asked, and returns with whose share.
	begin func(ctx context.Context) (*share, error)
	ask   func(ctx context.Context, by *share) (answer, error)
	// hurry has a token when the server is to be asked now.
	hurry chan struct{}
	stop  context.CancelFunc
}

// run asks until ctx is done, and reports each answer.
func (p *poller) run(ctx context.Context, report func(answer)) {
	for {
		by, err := p.begin(ctx)
		if err != nil {
			return
		}
		began := time.Now()
		said, err := p.ask(ctx, by)
		by.end()
		if ctx.Err() != nil {
			return
		}
		said.asked, said.tried, said.err = began, began, failure.Classify(err)
		report(said)
		if !pause(ctx, time.Until(began.Add(leastInterval)), nil) || !pause(ctx, time.Until(began.Add(askInterval)), p.hurry) {
			return
		}
	}
}

// pause waits for so long, or until there is a token. It returns false if ctx is done.
func pause(ctx context.Context, lasting time.Duration, token <-chan struct{}) bool {
	timer := time.NewTimer(max(0, lasting))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-token:
	case <-timer.C:
	}
	return true
}
