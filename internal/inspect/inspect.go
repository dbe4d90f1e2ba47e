// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect asks a Redis server which events it publishes, and has it publish what is
// missing where that is wanted. What the server says becomes evidence of package proof.
//
// The setting is the server's and may change at any time, by anybody. Many users may not read it
// and fewer may set it, so nothing depends on an answer.
package inspect

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/redisconn"
	"miracle.dev/scaledjob-operator/internal/rediserror"
	"miracle.dev/scaledjob-operator/internal/wakeup"
)

const (
	// askAgain is how often a server is asked for its setting, which may change at any
	// time, and refusedAgain how often where it refuses something. Each refusal is a line in
	// the server's ACL LOG.
	askAgain     = 5 * time.Second
	refusedAgain = time.Minute
)

// Inspector asks one server. The fields are set before [Inspector.Run].
type Inspector struct {
	Conn *redisconn.Conn
	// Evidence is told the answers, and Changed is set when one is news.
	Evidence *proof.Evidence
	Changed  wakeup.Signal
	// Configure says to add the flags recommended for the Classes of the keys that are watched
	// where they are missing.
	Configure bool
	Classes   func() []proof.Class
	Log       logr.Logger
}

// Run asks whenever due gets a token, and every now and then after that, until ctx is done. A
// token is due when a session has begun, and when there is a new one among the Classes.
func (i *Inspector) Run(ctx context.Context, due <-chan struct{}) {
	var again <-chan time.Time
	var logged proof.Setting
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
			i.Log.Info("Redis was asked for "+proof.Parameter, "told", told.Readable, "value", told.Flags.Known())
			logged = told
		}
	}
}

// ask asks, and has flags added if that is wanted. It believes what the server says after that,
// and not that it said OK.
func (i *Inspector) ask(ctx context.Context) (told proof.Setting, answered bool) {
	if told, answered = i.get(ctx); !answered {
		return told, false
	}
	classes := i.Classes()
	wanted := told.Flags.WithRecommended(classes...)
	if i.Configure && told.Readable && wanted != told.Flags {
		i.Evidence.Told(told, time.Now()) // Until now, nothing was published.
		refused := i.set(ctx, wanted)
		if told, answered = i.get(ctx); !answered {
			return told, false
		}
		told.Refused = refused || told.Flags.WithRecommended(classes...) != told.Flags
	}
	if i.Evidence.Told(told, time.Now()) {
		i.Changed.Set()
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

// get asks for the setting. There is no answer while the server is away.
func (i *Inspector) get(ctx context.Context) (told proof.Setting, answered bool) {
	var answer map[string]string
	err := i.Conn.Ask(ctx, func(ctx context.Context, client redis.Cmdable) (err error) {
		answer, err = client.ConfigGet(ctx, proof.Parameter).Result()
		return err
	})
	if err != nil && !rediserror.IsRefusal(err) {
		return proof.Setting{}, false
	}
	value, readable := answer[proof.Parameter]
	if err != nil || !readable {
		return proof.Setting{}, true
	}
	return proof.Setting{Readable: true, Flags: proof.Flags(value), Extended: i.Configure}, true
}

// set sets the flags, and reports whether the server refused. Redis has no way to add
// one, so flags that somebody else sets at the same moment are lost; whoever needs them sees
// that as we do, and adds them again.
func (i *Inspector) set(ctx context.Context, wanted proof.Flags) (refused bool) {
	err := i.Conn.Ask(ctx, func(ctx context.Context, client redis.Cmdable) error {
		return client.ConfigSet(ctx, proof.Parameter, string(wanted)).Err()
	})
	if err != nil {
		return rediserror.IsRefusal(err)
	}
	i.Log.Info("Set "+proof.Parameter, "value", wanted.Known())
	return false
}
