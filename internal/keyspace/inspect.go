// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

const (
	// inspectAgain is how often a server is asked for its setting, which may change at any
	// time, and refusedAgain how often one that does not tell. Each refusal is a line in the
	// server's ACL LOG.
	inspectAgain = 5 * time.Second
	refusedAgain = time.Minute
)

// inspect asks the server which events it publishes whenever a session has begun, and every
// now and then after that, until ctx is done. Many users may not ask, so everything works
// without an answer.
func (s *supervisor[K]) inspect(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.began:
		case <-again:
		}
		before, _ := s.evidence.get()
		found := s.askSetting(ctx, before)
		if s.evidence.found(found) {
			s.log.Info("Asked for "+flagsParameter, "answered", found.readable, "value", found.flags.known())
			s.stir()
		}
		if found.asked && !found.readable {
			again = time.After(refusedAgain)
		} else {
			again = time.After(inspectAgain)
		}
	}
}

// askSetting asks for the setting, and has flags added if the watcher is to do that. If the
// server is away the setting is what it was before.
func (s *supervisor[K]) askSetting(ctx context.Context, before setting) setting {
	var answer map[string]string
	err := s.conn.Do(ctx, func(ctx context.Context, client redis.Cmdable) (err error) {
		answer, err = client.ConfigGet(ctx, flagsParameter).Result()
		return err
	})
	if err != nil && !redisconn.IsRefusal(err) {
		return before
	}
	value, readable := answer[flagsParameter]
	if err != nil || !readable {
		return setting{asked: true}
	}
	found := setting{asked: true, readable: true, flags: flags(value)}
	if wanted := found.flags.withRecommended(); s.configure && wanted != found.flags {
		return s.applySetting(ctx, found, wanted)
	}
	return found
}

// applySetting sets the flags. Redis has no way to add one, so flags that somebody else sets at
// the same moment are lost; whoever needs them sees that as we do, and adds them again.
func (s *supervisor[K]) applySetting(ctx context.Context, found setting, wanted flags) setting {
	err := s.conn.Do(ctx, func(ctx context.Context, client redis.Cmdable) error {
		return client.ConfigSet(ctx, flagsParameter, string(wanted)).Err()
	})
	if err != nil {
		found.refused = redisconn.IsRefusal(err)
		return found
	}
	s.log.Info("Set "+flagsParameter, "value", wanted.known())
	found.flags = wanted
	return found
}
