// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	killInterval = 100 * time.Millisecond
	// The server drops a subscriber that leaves more than outputLimit unread,
	// besides what the buffers of the system hold. floodBytes go there at once.
	outputLimit = 64 << 10
	floodBytes  = 32 << 10
)

// clientFaults are what a server does to its clients.
func clientFaults() []Fault {
	return []Fault{
		{
			Name:    "subscribers killed every 100 ms",
			Promise: "no message is missed, and Jobs come within half a second",
			Short:   3 * time.Second, Long: 20 * time.Second,
			OfSubscribers: true,
			Strike:        besides((*Target).killSubscribers),
		}, {
			Name:          "killed as a slow consumer",
			Promise:       "messages whose announcement was thrown away get their Jobs",
			OfSubscribers: true,
			Strike:        strikeSlowConsumer,
		}, {
			Name:    "maxclients reached, operator connected",
			Promise: "messages get their Jobs, at the latest when there is room for another connection",
			Short:   2 * time.Second, Long: 20 * time.Second,
			Strike: func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
				return target.fullHouse(ctx, lasting, meanwhile)
			},
		}, {
			Name:    "maxclients reached, operator not connected",
			Promise: "messages sent meanwhile get their Jobs when there is room",
			Short:   2 * time.Second, Long: 20 * time.Second,
			AtStart: true,
			Strike: func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
				return target.fullHouse(ctx, lasting, func(ctx context.Context) error {
					target.Proxy.Reset()
					return meanwhile(ctx)
				})
			},
		},
	}
}

// killSubscribers kills until ctx ends.
func (t *Target) killSubscribers(ctx context.Context) error {
	killed := 0
	for sjtest.Pause(ctx, killInterval) == nil {
		some, err := t.Server.Client().ClientKillByFilter(context.WithoutCancel(ctx), "TYPE", "pubsub").Result()
		if err != nil {
			return fmt.Errorf("killing subscribers: %w", err)
		}
		killed += int(some)
	}
	if killed == 0 {
		return errors.New("there was no subscriber to kill")
	}
	return nil
}

// strikeSlowConsumer keeps back what goes to the operator, and floods its channels until the server gives it up.
func strikeSlowConsumer(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	const parameter = "client-output-buffer-limit"
	if err := target.configure(ctx, parameter, fmt.Sprintf("pubsub %d 0 0", outputLimit)); err != nil {
		return err
	}
	target.Proxy.Hold(tcpproxy.ToClient)
	err := during(ctx, lasting, meanwhile)
	return errors.Join(err, target.flood(ctx), target.Proxy.Pass(), target.configure(ctx, parameter, "pubsub 33554432 8388608 60"))
}

// flood publishes on all channels until nobody listens to any.
func (t *Target) flood(ctx context.Context) error {
	message := strings.Repeat("x", floodBytes)
	for {
		channels, err := t.Server.Client().PubSubChannels(ctx, "*").Result()
		if err != nil || len(channels) == 0 {
			return err
		}
		for _, channel := range channels {
			if err := t.Server.Client().Publish(ctx, channel, message).Err(); err != nil {
				return err
			}
		}
	}
}

// fullHouse has the server take no more clients. Those that are there stay.
func (t *Target) fullHouse(ctx context.Context, lasting time.Duration, meanwhile Meanwhile) error {
	const parameter, usual = "maxclients", 10_000
	if err := t.configure(ctx, parameter, 1); err != nil {
		return err
	}
	return errors.Join(t.sendsAway(), during(ctx, lasting, meanwhile), t.configure(ctx, parameter, usual))
}

// sendsAway returns an error unless the server sends a new client away.
func (t *Target) sendsAway() error {
	conn, err := net.Dial("tcp", t.Server.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(strikeTimeout)); err != nil {
		return err
	}
	words, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Errorf("waiting to be sent away: %w", err)
	}
	if !strings.HasPrefix(string(words), "-ERR max number of clients") {
		return fmt.Errorf("a new client got %q", words)
	}
	return nil
}
