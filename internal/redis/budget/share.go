// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget limits which part of the time something may take.
package budget

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

const (
	// part is the part of the time that may be spent, and burst is how much unused time can be saved up.
	part  = 0.1
	burst = 500 * time.Millisecond
	// mostDebt is how much more time may have been spent than there was. It bounds how long the next one waits.
	mostDebt = 200 * time.Millisecond
)

// Share is a tenth of the time, such as that of one core. Time is spent first and recorded afterwards, so there may be
// a debt. It is safe for concurrent use.
type Share struct {
	limiter *rate.Limiter // of nanoseconds
}

// New returns a Share with all that can be saved up.
func New() *Share {
	perSecond := part * float64(time.Second)
	return &Share{rate.NewLimiter(rate.Limit(perSecond), int(burst))}
}

// Left returns how much time may be spent now. It is negative while there is a debt.
func (s *Share) Left() time.Duration { return time.Duration(s.limiter.Tokens()) }

// Full reports whether all is saved up that can be, so that a new Share would be the same.
func (s *Share) Full() bool { return s.Left() >= burst }

// Charge records that something took so long.
func (s *Share) Charge(took time.Duration) {
	if took = min(took, burst, s.Left()+mostDebt); took > 0 {
		s.limiter.ReserveN(time.Now(), int(took))
	}
}

// Wait waits until there is no debt. The error is that of ctx, or says that its deadline would come first.
func (s *Share) Wait(ctx context.Context) error {
	if err := s.limiter.WaitN(ctx, 0); err != nil {
		return fmt.Errorf("waiting for a share of the time: %w", err)
	}
	return nil
}
