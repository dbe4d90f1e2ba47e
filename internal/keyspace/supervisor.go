// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// supervisor keeps a session running on one endpoint.
type supervisor[K comparable] struct {
	conn   *redisconn.Conn
	index  *index[K]
	mark   func(id K, cause Cause)
	timing sessionTiming
	log    logr.Logger
	// users is how many ids watch the endpoint. It is guarded by the watcher's lock.
	users int
}

// run starts one session after the other until ctx is done.
func (s *supervisor[K]) run(ctx context.Context) {
	var backoff redisconn.Backoff
	for {
		if err := s.conn.WaitUp(ctx); err != nil {
			return
		}
		backoff.Begin()
		s.index.reset()
		err := s.session(ctx, &backoff)
		if ctx.Err() != nil {
			return
		}
		s.log.Info("Lost the subscription to keyspace notifications", "cause", err.Error())
		if !sleep(ctx, backoff.Next()) {
			return
		}
	}
}

func (s *supervisor[K]) session(ctx context.Context, backoff *redisconn.Backoff) error {
	pubSub, err := s.conn.OpenPubSub(ctx)
	if err != nil {
		return err
	}
	defer pubSub.Close()
	current := &session[K]{
		index:  s.index,
		mark:   s.mark,
		timing: s.timing,
		pubSub: pubSub,
		confirmed: func() {
			backoff.Reset()
			s.log.Info("Subscribed to keyspace notifications")
		},
	}
	return current.run(ctx)
}

// sleep waits and reports whether ctx is still alive then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
