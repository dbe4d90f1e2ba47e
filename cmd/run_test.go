// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestStopBeforeTheCachesHaveSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs, neverSynced := make(chan struct{}), make(chan struct{})
		defer close(hangs)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		NewWithT(t).Expect(stoppable(neverSynced, func(context.Context) error {
			<-hangs
			return nil
		})(ctx)).To(Succeed())
	})
}

func TestStopAfterTheCachesHaveSyncedWaits(t *testing.T) {
	t.Parallel()
	errLate := errors.New("reconciles did not end")
	for name, whenSynced := range map[string]time.Duration{"before": 0, "together with the stop": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				ctx, stop := context.WithCancel(t.Context())
				synced := make(chan struct{})
				go func() {
					time.Sleep(whenSynced)
					g.Expect(closes(synced).Start(ctx)).To(Succeed())
					time.Sleep(time.Hour - whenSynced)
					stop()
				}()
				began := time.Now()
				g.Expect(stoppable(synced, func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(shutdownTimeout)
					return errLate
				})(ctx)).To(MatchError(errLate))
				g.Expect(time.Since(began)).To(Equal(time.Hour + shutdownTimeout))
			})
		})
	}
}

func TestManagerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	errAddress := errors.New("address in use")
	fails := func(context.Context) error { return errAddress }
	NewWithT(t).Expect(stoppable(make(chan struct{}), fails)(t.Context())).To(MatchError(errAddress))
}
