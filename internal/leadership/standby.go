// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// StandbyInterval is the interval at which a standby reads the Lease.
const StandbyInterval = 500 * time.Millisecond

// Get implements resourcelock.Interface. While another replica holds the Lease, it returns only when that one has
// released it, or has not renewed it for as long as the Lease lasts. An expired Lease is returned as released. A Lease
// that was deleted is not returned as missing before the last renewal has expired: its holder creates it again.
//
// Without this, client-go reads the Lease every one to 2.2 retry periods only, and counts from there. Clocks of other
// machines play no part: the time counts from when this process first saw the last renewal.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for {
		record, raw, err := l.Interface.Get(ctx)
		switch {
		case err == nil:
			l.reached.Store(true)
			l.others.see(record)
		case !apierrors.IsNotFound(err):
			return nil, nil, err
		}
		_, leads := l.age(time.Now())
		// The answer to the write that took the Lease may have been lost.
		took := err == nil && record.HolderIdentity == l.Identity()
		left := l.others.left()
		switch {
		case leads || took:
			return record, raw, err
		case left <= 0:
			if err == nil {
				record.HolderIdentity = ""
			}
			return record, raw, err
		}
		select {
		case <-ctx.Done():
			return record, raw, err
		case <-time.After(min(left, StandbyInterval)):
		}
	}
}

// sighting is the renewal of the Lease that a standby has last seen, and when it first saw it. The zero value means
// that nobody holds the Lease.
type sighting struct {
	holder  string
	renewed time.Time
	since   time.Time
	lasts   time.Duration
}

// see notes what was read just now. It compares the times of renewals: client-go compares the JSON of records, in which
// times are whole seconds.
func (s *sighting) see(record *resourcelock.LeaderElectionRecord) {
	if s.holder != record.HolderIdentity || !s.renewed.Equal(record.RenewTime.Time) {
		*s = sighting{holder: record.HolderIdentity, renewed: record.RenewTime.Time, since: time.Now()}
	}
	s.lasts = time.Duration(record.LeaseDurationSeconds) * time.Second
}

// left returns how long the Lease is still valid; nothing if nobody holds it.
func (s *sighting) left() time.Duration {
	if s.holder == "" {
		return 0
	}
	return s.lasts - time.Since(s.since)
}
