// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// askAgain is how often a server is asked for its setting, which may change at any
	// time, and refusedAgain how often where it refuses something. Each refusal is a line in
	// the server's ACL LOG.
	askAgain     = 5 * time.Second
	refusedAgain = time.Minute
)

// inspector asks one server which events it publishes, and has it publish what is missing where that is wanted. What the
// server says becomes evidence of package verify. The setting is the server's and may change at any time, by anybody. Many
// users may not read it and fewer may set it, so nothing depends on an answer.
type inspector struct {
	conn *connection.Conn
	// evidence is told the answers, and changed is set when one is news.
	evidence *verify.Evidence
	changed  coalesce.Signal
	// configure says to add the flags recommended for the classes of the keys that are watched
	// where they are missing.
	configure bool
	classes   func() []verify.Class
	log       logr.Logger
}

// run asks whenever due gets a token, and every now and then after that, until ctx is done. A
// token is due when a session has begun, and when there is a new one among the classes.
func (i *inspector) run(ctx context.Context, due <-chan struct{}) {
	var again <-chan time.Time
	var logged verify.Setting
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
		case <-again:
		}
		told, answered := i.ask(ctx)
		again = time.After(untilAsking(told, answered))
		if answered && told != logged {
			i.log.Info("Redis was asked for "+verify.Parameter, "told", told.Readable, "value", told.Flags.Known())
			logged = told
		}
	}
}

// ask asks, and has flags added if that is wanted. It believes what the server says after that,
// and not that it said OK.
func (i *inspector) ask(ctx context.Context) (told verify.Setting, answered bool) {
	if told, answered = i.get(ctx); !answered {
		return told, false
	}
	classes := i.classes()
	wanted := told.Flags.WithRecommended(classes...)
	if i.configure && told.Readable && wanted != told.Flags {
		i.evidence.Told(told, time.Now()) // Until now, nothing was published.
		refused := i.set(ctx, wanted)
		if told, answered = i.get(ctx); !answered {
			return told, false
		}
		told.Refused = refused || told.Flags.WithRecommended(classes...) != told.Flags
	}
	if i.evidence.Told(told, time.Now()) {
		i.changed.Set()
	}
	return told, true
}

// untilAsking returns how long after a question the next one comes.
func untilAsking(told verify.Setting, answered bool) time.Duration {
	if answered && (told.Refused || !told.Readable) {
		return refusedAgain
	}
	return askAgain
}

// get asks for the setting. There is no answer while the server is away.
func (i *inspector) get(ctx context.Context) (told verify.Setting, answered bool) {
	var answer map[string]string
	err := i.conn.Ask(ctx, func(ctx context.Context, client redis.Cmdable) (err error) {
		answer, err = client.ConfigGet(ctx, verify.Parameter).Result()
		return err
	})
	if err != nil && !failure.IsRefusal(err) {
		return verify.Setting{}, false
	}
	value, readable := answer[verify.Parameter]
	if err != nil || !readable {
		return verify.Setting{}, true
	}
	return verify.Setting{Readable: true, Flags: verify.Flags(value), Extended: i.configure}, true
}

// set sets the flags, and reports whether the server refused. Redis has no way to add
// one, so flags that somebody else sets at the same moment are lost; whoever needs them sees
// that as we do, and adds them again.
func (i *inspector) set(ctx context.Context, wanted verify.Flags) (refused bool) {
	err := i.conn.Ask(ctx, func(ctx context.Context, client redis.Cmdable) error {
		return client.ConfigSet(ctx, verify.Parameter, string(wanted)).Err()
	})
	if err != nil {
		return failure.IsRefusal(err)
	}
	i.log.Info("Set "+verify.Parameter, "value", wanted.Known())
	return false
}
