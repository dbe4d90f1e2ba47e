// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"time"

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
			Within:  atNextAttempt,
			Strike:  strikeRefusal,
		}, {
			Name:    "network down",
			Promise: "messages sent meanwhile get their Jobs when it is up",
			Short:   3 * time.Second, Long: 30 * time.Second,
			AtStart: true,
			Within:  atNextAttempt,
			Strike:  strikeNetworkDown,
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
			Within:  atNextAttempt,
			Strike:  once(func(proxy *tcpproxy.Proxy) { proxy.CutAfter(frameBytes) }),
		}, {
			Name:    "every piece of data delayed",
			Promise: "Jobs come, only later",
			Short:   3 * time.Second, Long: 30 * time.Second,
			AtStart: true,
			Within:  atNextAttempt,
			Strike:  strikeDelay,
		},
	}
}

func strikeNetworkDown(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	target.Proxy.Hold(tcpproxy.Both)
	return errors.Join(during(ctx, lasting, meanwhile), target.Proxy.Pass())
}

// once has a fault of the connections that are open. It has no end: they stay as
// they are.
func once(strike func(*tcpproxy.Proxy)) Strike {
	return func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
		strike(target.Proxy)
		return during(ctx, lasting, meanwhile)
	}
}

func strikeRefusal(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	return errors.Join(target.cutOff(), during(ctx, lasting, meanwhile), target.Proxy.Pass())
}

func strikeDelay(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	target.Proxy.Delay(delay)
	return errors.Join(during(ctx, lasting, meanwhile), target.Proxy.Pass())
}
