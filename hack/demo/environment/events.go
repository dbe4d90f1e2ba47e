// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Events switches the notifications of a Redis.
type Events struct {
	client  *redis.Client
	found   string // the flags as they were
	enabled string // the same and those needed
}

// newEvents switches the notifications on. It fails without the right to.
func newEvents(ctx context.Context, client *redis.Client) (*Events, error) {
	settings, err := client.ConfigGet(ctx, setting).Result()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", setting, err)
	}
	e := &Events{client: client, found: settings[setting], enabled: enable(settings[setting])}
	return e, e.set(ctx, e.enabled)
}

// enable adds to the flags what is needed to announce the growth of lists.
func enable(flags string) string {
	for _, needed := range "Klg" {
		// A stands for all classes, but not for K.
		if !strings.ContainsRune(flags, needed) && (needed == 'K' || !strings.Contains(flags, "A")) {
			flags += string(needed)
		}
	}
	return flags
}

// Switch switches all notifications off, or on again.
func (e *Events) Switch(ctx context.Context, on bool) error {
	if on {
		return e.set(ctx, e.enabled)
	}
	return e.set(ctx, "")
}

// restore sets the flags as they were.
func (e *Events) restore(ctx context.Context) error { return e.set(ctx, e.found) }

func (e *Events) set(ctx context.Context, flags string) error {
	if err := e.client.ConfigSet(ctx, setting, flags).Err(); err != nil {
		return fmt.Errorf("setting %s to %q: %w", setting, flags, err)
	}
	return nil
}
