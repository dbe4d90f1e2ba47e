// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// source is how the operator hears of growth.
type source struct {
	name          string
	notifications scaledjobv1.NotificationMode
	// events is the server's setting, as for redistest.Options.
	events string
	// kill ends the connections of the source, and returns how many there were.
	kill func(context.Context, *redistest.Server) (int, error)
}

// notifications is the subscription to keyspace notifications.
var notifications = source{
	name: "notifications", notifications: scaledjobv1.NotificationsEnabled,
	kill: func(ctx context.Context, server *redistest.Server) (int, error) {
		killed, err := server.Client().ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
		return int(killed), err
	},
}

// tracked is the tracking of keys, as it is by default on a server that publishes nothing.
var tracked = source{
	name: "tracking", notifications: scaledjobv1.NotificationsEnabled, events: redistest.NoEvents,
	kill: func(ctx context.Context, server *redistest.Server) (int, error) { return server.KillTracking(ctx) },
}

// restless are intervals without a rest after sessions that were killed: nothing but the next session tells of what was
// pushed meanwhile.
func restless() node.Timing {
	timing := node.DefaultTiming()
	timing.ShortSession = time.Nanosecond
	return timing
}
