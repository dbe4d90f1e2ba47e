// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// forgedAtOnce is how many rounds of forgeries are sent without waiting.
	forgedAtOnce = 50
	// hugeForgery is more than the operator takes of one message.
	hugeForgery = 2 << 20
)

// nonsense are payloads that whoever may PUBLISH can send. Some are what the server would say, and all are lies.
var nonsense = []string{
	"lpush", "rename_to", "del", "", "lpush\r\n", "\x00\xff", "subscribe", "-ERR", "*3\r\n$7\r\nmessage\r\n",
	strings.Repeat("lpush", 1<<10), "no such event",
}

// forgeries are notifications that the server did not make.
func forgeries() []Fault {
	return []Fault{
		{
			Name:    "forged notifications at full rate",
			Promise: "they cause no Job, and true ones do",
			Short:   2 * time.Second, Long: 20 * time.Second,
			OfSubscribers: true,
			Strike:        besides((*Target).forge),
		}, {
			Name:          "forged notification of 2 MB",
			Promise:       "it may end the connection, and no message is missed",
			OfSubscribers: true,
			Strike:        strikeHugeForgery,
		},
	}
}

// forge publishes nonsense until ctx ends.
func (t *Target) forge(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := t.publish(context.WithoutCancel(ctx), forgedAtOnce, nonsense...); err != nil {
			return err
		}
	}
	return nil
}

// publish sends payloads so many times to each channel that somebody listens to, and to one that nobody does.
func (t *Target) publish(ctx context.Context, times int, payloads ...string) error {
	client := t.Server.Client()
	channels, err := client.PubSubChannels(ctx, "*").Result()
	if err != nil {
		return err
	}
	_, err = client.Pipelined(ctx, func(pipe goredis.Pipeliner) error {
		for _, channel := range append(channels, "__keyspace@0__:nobody's") {
			for range times {
				for _, payload := range payloads {
					pipe.Publish(ctx, channel, payload)
				}
			}
		}
		return nil
	})
	return err
}

func strikeHugeForgery(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		target.publish(ctx, 1, strings.Repeat("x", hugeForgery)),
		during(ctx, lasting, meanwhile))
}
