// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// askInterval is the time between two questions to a server, and leastInterval the time if something contradicts what
	// is known.
	askInterval   = time.Second
	leastInterval = 50 * time.Millisecond
)

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
