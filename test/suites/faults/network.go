// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	// frameBytes ends in the middle of a message about a push.
	frameBytes = 20
	// delay keeps an answer back for longer than the operator deems a server quick.
	delay = 150 * time.Millisecond
)

// networkFaults are what happens to the network between operator and server.
func networkFaults() []Fault {
	return []Fault{
		{
			Name:    "connections reset, new ones refused",
			Promise: "messages sent meanwhile get their Jobs at the next connection",
			Long:    20 * time.Second,
			Strike:  strikeRefusal,
		}, {
			Name:    "network down",
			Promise: "messages sent meanwhile get their Jobs when it is up",
			Short:   3 * time.Second, Long: 30 * time.Second,
			AtStart: true,
			Strike:  passing(func(proxy *tcpproxy.Proxy) { proxy.Hold(tcpproxy.Both) }),
		}, {
			Name:    "half-open in both directions",
			Promise: "found by the next ping, and no message is missed",
			Within:  atNextPing,
			Strike:  once(func(proxy *tcpproxy.Proxy) { proxy.Strand(tcpproxy.Both) }),
		}, {
			Name:    "a message stalls half-way",
			Promise: "found by the next ping, and no message is missed",
			Within:  atNextPing,
			Strike:  once(func(proxy *tcpproxy.Proxy) { proxy.StrandAfter(frameBytes) }),
		}, {
			Name:    "a message is cut off half-way",
			Promise: "no message is missed",
			Strike:  once(func(proxy *tcpproxy.Proxy) { proxy.CutAfter(frameBytes) }),
		}, {
			Name:    "every piece of data delayed",
			Promise: "Jobs come, only later",
			Short:   3 * time.Second, Long: 30 * time.Second,
			AtStart: true,
			Strike:  passing(func(proxy *tcpproxy.Proxy) { proxy.Delay(delay) }),
		},
	}
}

// passing has a fault of the network, which ends when the proxy lets all pass.
func passing(strike func(*tcpproxy.Proxy)) Strike {
	return func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
		return errors.Join(once(strike)(ctx, target, lasting, meanwhile), target.Proxy.Pass())
	}
}

// once has a fault of the connections that are open. It has no end: they stay as they are.
func once(strike func(*tcpproxy.Proxy)) Strike {
	return func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
		strike(target.Proxy)
		return during(ctx, lasting, meanwhile)
	}
}

func strikeRefusal(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	return errors.Join(target.cutOff(), during(ctx, lasting, meanwhile), target.Proxy.Pass())
}

// refusals are faults in which the server answers, but with an error.
func refusals() []Fault {
	return []Fault{
		{
			Name:    "BUSY",
			Promise: "messages of the last moment before get their Jobs when the script ends",
			Short:   2 * time.Second, Long: 15 * time.Second,
			AtStart: true,
			Strike:  strikeBusy,
		},
	}
}

// strikeBusy has the operator come back to a server that is busy, and knows messages of which the operator does not.
func strikeBusy(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	err := errors.Join(target.cutOff(), meanwhile(ctx), target.configure(ctx, "lua-time-limit", 1))
	ended := make(chan error, 1)
	go func() { ended <- target.loopForever(ctx) }()
	err = errors.Join(err, target.awaitRefusal(ctx, "BUSY"), target.Proxy.Pass(), sjtest.Pause(ctx, lasting))
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
