// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// settingInterval is the time between two reads of the setting, which may change at any time, while the server allows to
// read and to change it.
const settingInterval = 5 * time.Second

// inspector reads which events a server publishes, and adds missing flags if it is configured to. The result is
// evidence for package verify. Anybody may change the setting at any time, many users may not read it, and even fewer
// may change it. So the operator also works without an answer.
type inspector struct {
	conn *connection.Conn
	// evidence receives the answers. changed is called when an answer is new.
	evidence *verify.Evidence
	changed  func()
	// configure means that the inspector adds the recommended flags for the classes of the watched keys if they are
	// missing.
	configure bool
	classes   func() []verify.Class
	log       logr.Logger
}

func newInspector(n *Node) *inspector {
	return &inspector{
		conn: n.options.Conn, evidence: n.evidence, configure: n.options.Configure, classes: n.Classes, log: n.options.Log,
		changed: func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.wakeAll()
		},
	}
}

// run reads the setting whenever due is set, and periodically after that, until ctx is done. due is set when a session
// has begun, and when a key of a new class is watched.
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
		setting, answered := i.ask(ctx)
		again = time.After(untilAsking(setting, answered))
		if answered && setting != logged {
			i.log.Info("Read "+verify.Parameter+" from Redis", "readable", setting.Readable, "value", setting.Flags.Known())
			logged = setting
		}
	}
}

// ask reads the setting, and adds missing flags if configured. After that it reads the setting again, because some
// servers reply OK and change nothing.
func (i *inspector) ask(ctx context.Context) (setting verify.Setting, answered bool) {
	if setting, answered = i.get(ctx); !answered {
		return setting, false
	}
	classes := i.classes()
	wanted := setting.Flags.WithRecommended(classes...)
	news := false
	if i.configure && setting.Readable && wanted != setting.Flags {
		news = i.evidence.SettingRead(setting, time.Now()) // Until now the server has published nothing for the missing flags.
		refused := i.set(ctx, wanted)
		if setting, answered = i.get(ctx); !answered {
			if news {
				i.changed()
			}
			return setting, false
		}
		setting.Refused = refused || setting.Flags.WithRecommended(classes...) != setting.Flags
	}
	if i.evidence.SettingRead(setting, time.Now()) || news {
		i.changed()
	}
	return setting, true
}

// untilAsking returns the time until the next read.
func untilAsking(setting verify.Setting, answered bool) time.Duration {
	if answered && (setting.Refused || !setting.Readable) {
		return failure.RejectedRetry
	}
	return settingInterval
}

// get reads the setting. There is no answer if the server cannot be reached.
func (i *inspector) get(ctx context.Context) (setting verify.Setting, answered bool) {
	var answer map[string]string
	err := i.conn.Ask(ctx, func(ctx context.Context, client connection.Client) (err error) {
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

// set writes the setting, and reports whether the server rejected that. Redis has no command that adds one flag. If
// another program changes the flags at the same moment, its change is lost, until it finds that and adds its flags
// again, as the operator does.
func (i *inspector) set(ctx context.Context, wanted verify.Flags) (refused bool) {
	err := i.conn.Ask(ctx, func(ctx context.Context, client connection.Client) error {
		return client.ConfigSet(ctx, verify.Parameter, string(wanted)).Err()
	})
	if err != nil {
		return failure.IsRefusal(err)
	}
	i.log.Info("Set "+verify.Parameter, "value", wanted.Known())
	return false
}
