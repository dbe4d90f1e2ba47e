// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

// listen has all strangers listen until the soak ends. Each has the same address in every storm: the operator keeps a
// connection to a server for a while though no ScaledJob names it any more.
func (s *soak) listen() error {
	for _, stranger := range faults.Strangers() {
		listening, err := redistest.StartScripted(stranger.Script)
		if err != nil {
			return fmt.Errorf("having the stranger %q listen: %w", stranger.Name, err)
		}
		s.strangers = append(s.strangers, listening)
	}
	return nil
}

// haveStrangers has a ScaledJob name each stranger until ctx ends. No message comes
// to them, and no Job may come of them.
func (s *soak) haveStrangers(ctx context.Context) error {
	watched, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var lured []*queue
	for i, stranger := range s.strangers {
		q, err := s.newQueue(watched, fmt.Sprintf("stranger-%d", i), stranger.Addr(), guestMessages)
		if err != nil {
			return err
		}
		lured = append(lured, q)
	}
	<-ctx.Done()
	for _, q := range lured {
		if err := errors.Join(q.check(), q.remove(watched)); err != nil {
			return err
		}
	}
	return nil
}
