// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// settingInterval is the time between two reads of the setting, which may change at any time, while the server allows
// to read and to change it.
const settingInterval = 5 * time.Second

// inspectSetting reads which events the server publishes, and adds missing flags if it is configured to, until ctx is
// done: whenever inspect is set, and periodically after that. The result is evidence for package verify. Anybody may
// change the setting at any time, many users may not read it, and even fewer may change it. So the operator also works
// without an answer.
func (n *Node) inspectSetting(ctx context.Context) {
	var again <-chan time.Time
	var logged verify.Setting
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.inspect:
		case <-again:
		}
		setting, answered := n.askSetting(ctx)
		again = time.After(untilAsking(setting, answered))
		if answered && setting != logged {
			n.options.Log.Info("Read "+verify.Parameter+" from Redis", "readable", setting.Readable, "value", setting.Flags.Known())
			logged = setting
		}
	}
}

// askSetting reads the setting, and adds missing flags if configured.
func (n *Node) askSetting(ctx context.Context) (setting verify.Setting, answered bool) {
	if setting, answered = n.getSetting(ctx); !answered {
		return setting, false
	}
	news := n.evidence.SettingRead(setting, time.Now()) // Until now the server has published nothing for missing flags.
	if n.options.Configure && setting.Readable && n.lacksFlags(setting) {
		if setting, answered = n.addFlags(ctx); answered {
			news = n.evidence.SettingRead(setting, time.Now()) || news
		}
	}
	if news {
		n.WakeAll()
	}
	return setting, answered
}

// lacksFlags reports whether the setting has not all flags that the keys of the node need.
func (n *Node) lacksFlags(setting verify.Setting) bool {
	return setting.Flags.WithRecommended(n.Classes()...) != setting.Flags
}

// addFlags adds missing flags, and reads the setting again, because some servers reply OK and change nothing. Meanwhile
// no other node of the server does that, so none replaces the value that another one has just set.
func (n *Node) addFlags(ctx context.Context) (setting verify.Setting, answered bool) {
	select {
	case n.options.Setting <- struct{}{}:
	case <-ctx.Done():
		return setting, false
	}
	defer func() { <-n.options.Setting }()
	if setting, answered = n.getSetting(ctx); !answered || !setting.Readable || !n.lacksFlags(setting) {
		return setting, answered
	}
	refused := n.setSetting(ctx, setting.Flags.WithRecommended(n.Classes()...))
	setting, answered = n.getSetting(ctx)
	setting.Refused = answered && (refused || n.lacksFlags(setting))
	return setting, answered
}

// untilAsking returns the time until the next read.
func untilAsking(setting verify.Setting, answered bool) time.Duration {
	if answered && (setting.Refused || !setting.Readable) {
		return failure.RejectedRetry
	}
	return settingInterval
}

// getSetting reads the setting. There is no answer if the server cannot be reached.
func (n *Node) getSetting(ctx context.Context) (setting verify.Setting, answered bool) {
	var answer map[string]string
	err := n.options.Conn.Ask(ctx, func(ctx context.Context, client connection.Client) (err error) {
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
	return verify.Setting{Readable: true, Flags: verify.Flags(value), Extended: n.options.Configure}, true
}

// setSetting writes the setting, and reports whether the server rejected that. Redis has no command that adds one flag.
// If another program changes the flags at the same moment, its change is lost, until it finds that and adds its flags
// again, as the operator does.
func (n *Node) setSetting(ctx context.Context, wanted verify.Flags) (refused bool) {
	err := n.options.Conn.Ask(ctx, func(ctx context.Context, client connection.Client) error {
		return client.ConfigSet(ctx, verify.Parameter, string(wanted)).Err()
	})
	if err != nil {
		return failure.IsRefusal(err)
	}
	n.options.Log.Info("Set "+verify.Parameter, "value", wanted.Known())
	return false
}
