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
	conn     *redisconn.Conn
	endpoint redisconn.Endpoint
	index    *index[K]
	mark     func(id K, cause Cause)
	timing   sessionTiming
	log      logr.Logger
	// users is how many ids watch the endpoint. It is guarded by the lock of the watcher.
	users int
}

// run has one session after the other until ctx is done. While the endpoint is down it
// waits for the prober of the pool.
func (s *supervisor[K]) run(ctx context.Context) {
	var backoff redisconn.Backoff
	var lastEnd string
	for {
		if err := s.conn.WaitUp(ctx); err != nil {
			return
		}
		backoff.Begin()
		confirmed, err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if confirmed {
			backoff.Reset()
		}
		if end := redisconn.Classify(err).Message; confirmed || end != lastEnd {
			s.log.Info("Not subscribed to keyspace notifications", "cause", err.Error())
			lastEnd = end
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Delay()):
		}
	}
}

// session runs a session to its end. It reports whether the server confirmed anything.
func (s *supervisor[K]) session(ctx context.Context) (confirmed bool, err error) {
	pubSub, err := s.conn.OpenPubSub(ctx)
	if err != nil {
		return false, err
	}
	defer pubSub.Close()
	defer s.index.reset(func(id K) { s.mark(id, Lost) })
	current := &session[K]{index: s.index, mark: s.mark, timing: s.timing, log: s.log, pubSub: pubSub}
	err = current.run(ctx)
	return current.confirmed, err
}
