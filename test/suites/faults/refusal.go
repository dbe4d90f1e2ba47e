// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// refusals are faults in which the server answers, but with an error.
func refusals() []Fault {
	return []Fault{
		{
			Name:    "BUSY",
			Promise: "messages of the last moment before get their Jobs when the script ends",
			Short:   2 * time.Second, Long: 15 * time.Second,
			AtStart: true,
			Within:  atNextAttempt,
			Strike:  strikeBusy,
		},
	}
}

// strikeBusy has the operator come back to a server that is busy, and knows
// messages of which the operator does not.
func strikeBusy(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	err := errors.Join(target.cutOff(), meanwhile(ctx), target.configure(ctx, "lua-time-limit", 1))
	ended := make(chan error, 1)
	go func() { ended <- target.loopForever(ctx) }()
	err = errors.Join(err, target.awaitRefusal(ctx, "BUSY", "PING"), target.Proxy.Pass(), scene.Pause(ctx, lasting))
	return errors.Join(err, target.command(ctx, "SCRIPT", "KILL"), <-ended)
}

// loopForever runs a script until it is killed.
func (t *Target) loopForever(ctx context.Context) error {
	options := *t.Server.Client().Options()
	options.ReadTimeout = -1
	patient := goredis.NewClient(&options)
	defer func() { _ = patient.Close() }()
	err := patient.Eval(ctx, "while true do end", nil).Err()
	if err != nil && strings.Contains(err.Error(), "SCRIPT KILL") {
		return nil
	}
	return err
}
