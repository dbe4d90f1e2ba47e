// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"bytes"
	"context"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// standbyInterval is the interval at which a standby reads the Lease.
const standbyInterval = 500 * time.Millisecond

// sighting is what a standby last read of the Lease, and when this was new to it.
type sighting struct {
	raw   []byte
	since time.Time
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
		left := l.others.left(raw, time.Duration(record.LeaseDurationSeconds)*time.Second)
		if left <= 0 {
			record.HolderIdentity = ""
			return record, raw, nil
		}
		if err := wait(ctx, min(left, standbyInterval)); err != nil {
			return nil, nil, err
		}
	}
}

// left returns how long a Lease that was read just now is still valid.
func (s *sighting) left(raw []byte, duration time.Duration) time.Duration {
	if !bytes.Equal(s.raw, raw) {
		*s = sighting{raw, time.Now()}
	}
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
