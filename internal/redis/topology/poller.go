// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// pollInterval is the time between two requests to a server, and leastPollInterval the time if something contradicts
	// what is known.
	pollInterval      = time.Second
	leastPollInterval = 50 * time.Millisecond
)

// poller polls one server.
type poller struct {
	// begin waits until the server may be polled, and returns whose share that takes.
	begin   func(ctx context.Context) (*share, error)
	request func(ctx context.Context, by *share) (response, error)
	// pollNow has a token when the server is to be polled at once.
	pollNow chan struct{}
	stop    context.CancelFunc
}

// run polls until ctx is done, and passes each response to report.
func (p *poller) run(ctx context.Context, report func(response)) {
	for {
		by, err := p.begin(ctx)
		if err != nil {
			return
		}
		began := time.Now()
		reported, err := p.request(ctx, by)
		by.end()
		if ctx.Err() != nil {
			return
		}
		reported.sentAt, reported.triedAt, reported.err = began, began, failure.Classify(err)
		report(reported)
		if !pause(ctx, time.Until(began.Add(leastPollInterval)), nil) || !pause(ctx, time.Until(began.Add(pollInterval)), p.pollNow) {
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
