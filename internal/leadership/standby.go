// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// standbyInterval is the interval at which a standby reads the Lease.
const standbyInterval = 500 * time.Millisecond

// sighting is the renewal of the Lease that a standby has last seen, and when it first saw it.
type sighting struct {
	holder  string
	renewed time.Time
	since   time.Time
}

// Get implements resourcelock.Interface. While another replica holds the Lease, it returns only when that one has
// released it, or has not renewed it for as long as the Lease lasts. An expired Lease is returned as released. Without
// this, client-go reads the Lease every one to 2.2 retry periods only, and counts from there. Clocks of other machines
// play no part: the time counts from when this process first saw the last renewal.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for {
		record, raw, err := l.Interface.Get(ctx)
		if err != nil {
			return nil, nil, err
		}
		_, leads := l.age(time.Now())
		if leads || record.HolderIdentity == "" {
			return record, raw, nil
		}
		left := l.others.left(record)
		if left <= 0 {
			record.HolderIdentity = ""
			return record, raw, nil
		}
		if err := wait(ctx, min(left, standbyInterval)); err != nil {
			return nil, nil, err
		}
	}
}

// left returns how long a Lease that was read just now is still valid. It compares the times of renewals, because what
// client-go compares has them in whole seconds.
func (s *sighting) left(record *resourcelock.LeaderElectionRecord) time.Duration {
	if s.holder != record.HolderIdentity || !s.renewed.Equal(record.RenewTime.Time) {
		*s = sighting{record.HolderIdentity, record.RenewTime.Time, time.Now()}
	}
	duration := time.Duration(record.LeaseDurationSeconds) * time.Second
	return duration - time.Since(s.since)
}

// wait returns after the duration, or with an error when ctx ends.
func wait(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
