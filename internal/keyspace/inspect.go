// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/redisconn"
)

const (
	// askAgain is how often a server is asked for its setting, which may change at any
	// time, and refusedAgain how often where it refuses something. Each refusal is a line in
	// the server's ACL LOG.
	askAgain     = 5 * time.Second
	refusedAgain = time.Minute
)

// inspect asks the server which events it publishes whenever a session has begun, and every
// now and then after that, until ctx is done. Many users may not ask, so everything works
// without an answer.
func (s *supervisor[K]) inspect(ctx context.Context) {
	var again <-chan time.Time
	var logged proof.Setting
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.began:
		case <-again:
		}
		told, answered := s.inspectOnce(ctx)
		again = time.After(untilAsking(told, answered))
		if answered && told != logged {
			s.log.Info("Redis was asked for "+proof.Parameter, "told", told.Readable, "value", told.Flags.Known())
			logged = told
		}
	}
}

// inspectOnce asks, and has flags added if the watcher is to do that. It believes what the
// server says after that, and not that it said OK.
func (s *supervisor[K]) inspectOnce(ctx context.Context) (told proof.Setting, answered bool) {
	if told, answered = s.askSetting(ctx); !answered {
		return told, false
	}
	wanted := told.Flags.WithRecommended()
	if s.configure && told.Readable && wanted != told.Flags {
		s.evidence.Told(told, time.Now()) // Until now, nothing was published.
		refused := s.applySetting(ctx, wanted)
		if told, answered = s.askSetting(ctx); !answered {
			return told, false
		}
		told.Refused = refused || told.Flags.WithRecommended() != told.Flags
	}
	if s.evidence.Told(told, time.Now()) {
		s.evidenceChanged.Set()
	}
	return told, true
}

// untilAsking returns how long after a question the next one comes.
func untilAsking(told proof.Setting, answered bool) time.Duration {
	if answered && (told.Refused || !told.Readable) {
		return refusedAgain
	}
	return askAgain
}

// askSetting asks for the setting. There is no answer while the server is away.
func (s *supervisor[K]) askSetting(ctx context.Context) (told proof.Setting, answered bool) {
	var answer map[string]string
	err := s.conn.Ask(ctx, func(ctx context.Context, client redis.Cmdable) (err error) {
		answer, err = client.ConfigGet(ctx, proof.Parameter).Result()
		return err
	})
	if err != nil && !redisconn.IsRefusal(err) {
		return proof.Setting{}, false
	}
	value, readable := answer[proof.Parameter]
	if err != nil || !readable {
		return proof.Setting{}, true
	}
	return proof.Setting{Readable: true, Flags: proof.Flags(value)}, true
}

// applySetting sets the flags, and reports whether the server refused. Redis has no way to add
// one, so flags that somebody else sets at the same moment are lost; whoever needs them sees
// that as we do, and adds them again.
func (s *supervisor[K]) applySetting(ctx context.Context, wanted proof.Flags) (refused bool) {
	err := s.conn.Ask(ctx, func(ctx context.Context, client redis.Cmdable) error {
		return client.ConfigSet(ctx, proof.Parameter, string(wanted)).Err()
	})
	if err != nil {
		return redisconn.IsRefusal(err)
	}
	s.log.Info("Set "+proof.Parameter, "value", wanted.Known())
	return false
}
