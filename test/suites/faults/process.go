// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// fillerKeys make a server take its time to load them.
	fillerKeys = 300
	// loadTimeout bounds the loading of data.
	loadTimeout = time.Minute
)

// processFaults are what happens to the process of the server.
func processFaults() []Fault {
	return []Fault{
		{
			Name:    "kill -9, restarted empty",
			Promise: "the Jobs stay, and new messages get theirs",
			Short:   time.Second, Long: 20 * time.Second,
			AtStart: true,
			Strike:  strikeRestartEmpty,
		}, {
			Name:    "kill -9, restarted with its data",
			Promise: "messages of the last moment before it get their Jobs",
			Strike:  strikeRestartFull,
		}, {
			Name:    "SIGSTOP",
			Promise: "messages sent meanwhile get their Jobs when the server goes on",
			Short:   3 * time.Second, Long: 30 * time.Second,
			AtStart: true,
			Strike:  strikeStop,
		}, {
			Name:    "LOADING",
			Promise: "messages in the data that is loaded get their Jobs",
			Short:   2 * time.Second, Long: 15 * time.Second,
			AtStart: true,
			Strike:  strikeLoading,
		},
	}
}

// strikeRestartEmpty has the messages come before the operator is back.
func strikeRestartEmpty(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	err := errors.Join(target.Server.Kill(), target.cutOff(), target.Server.Restart(ctx))
	return errors.Join(err, during(ctx, lasting, meanwhile), target.Proxy.Pass())
}

// strikeRestartFull has the messages come when the operator is cut off already.
func strikeRestartFull(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	err := target.cutOff()
	err = errors.Join(err, during(ctx, lasting, meanwhile), target.command(ctx, "SAVE"))
	return errors.Join(err, target.Server.Kill(), target.Server.RestartSaved(ctx), target.Proxy.Pass(), target.awaitLoaded(ctx))
}

func strikeStop(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	if err := target.Server.Pause(); err != nil {
		return err
	}
	return errors.Join(during(ctx, lasting, meanwhile), target.Server.Resume())
}

// strikeLoading has the operator reach a server that loads messages of which it knows nothing.
func strikeLoading(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	err := errors.Join(target.cutOff(), meanwhile(ctx), target.fill(ctx), target.command(ctx, "SAVE"))
	perKey := lasting / fillerKeys
	err = errors.Join(err, target.Server.RestartSaved(ctx,
		"--key-load-delay", fmt.Sprint(perKey.Microseconds()), "--loading-process-events-interval-bytes", "1024"))
	return errors.Join(err, target.awaitRefusal(ctx, "LOADING"), target.Proxy.Pass(), target.awaitLoaded(ctx))
}

// fill adds keys that nobody uses.
func (t *Target) fill(ctx context.Context) error {
	_, err := t.Server.Client().Pipelined(ctx, func(pipe goredis.Pipeliner) error {
		for i := range fillerKeys {
			pipe.Set(ctx, fmt.Sprintf("filler:%d", i), strings.Repeat("x", 1<<10), 0)
		}
		return nil
	})
	return err
}

// awaitLoaded returns once the server has loaded its data. Until then it may well
// take its time to say LOADING. It gives up after a minute.
func (t *Target) awaitLoaded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := sjtest.Await(ctx, func(ctx context.Context) error { return t.command(ctx, "PING") }); err != nil {
		return fmt.Errorf("waiting until the server has loaded its data: %w", err)
	}
	return nil
}
