// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"time"
)

const (
	// forcedReconciles are made of a ScaledJob to see that nothing more comes of it. The resync brings restReconciles after
	// that.
	forcedReconciles = 100
	restReconciles   = 3
	// mostLag is how late the operator may hear of the changes that force it.
	mostLag = 500 * time.Millisecond
)

// Exactly has the operator look at the ScaledJob many more times. It returns an error unless exactly as many Jobs were
// ever created as are due after that, and never were too many unfinished.
func (s *ScaledJob) Exactly(ctx context.Context, due func(context.Context) (int, error)) error {
	if err := s.haveLooked(ctx); err != nil {
		return err
	}
	if err := s.Witness.CatchUp(ctx); err != nil {
		return err
	}
	if fault := s.Witness.Verdict(); fault != "" {
		return fmt.Errorf("ScaledJob %s: %s", s.Name, fault)
	}
	jobs, err := due(ctx)
	if created := s.Witness.Created(); err == nil && created != jobs {
		err = fmt.Errorf("ScaledJob %s has got %d Jobs, and %d were due", s.Name, created, jobs)
	}
	return err
}

// haveLooked has the operator look because Jobs change, and then because of the resync, at the shortest interval.
func (s *ScaledJob) haveLooked(ctx context.Context) error {
	if err := s.Disturb(ctx, forcedReconciles); err != nil {
		return err
	}
	if err := Pause(ctx, mostLag); err != nil {
		return err
	}
	interval := s.Object.Spec.PollingIntervalSeconds
	if err := s.Update(ctx, Polling(1)); err != nil {
		return err
	}
	if err := s.AwaitReconciles(ctx, restReconciles); err != nil {
		return fmt.Errorf("waiting for the resync: %w", err)
	}
	return s.Update(ctx, Polling(interval))
}
