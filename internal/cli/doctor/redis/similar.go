// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"
	"unicode"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// mostScanned is the number of keys whose names are compared, scanPage how many the server is asked for at once, and
	// mostSimilar how many are named.
	mostScanned = 100_000
	scanPage    = 1000
	mostSimilar = 5
	// scratchLife is how long a scratch key exists that was not deleted.
	scratchLife = time.Minute
	// leastSimilar is the length from which on a name is looked for in longer ones.
	leastSimilar = 3
)

// scan compares the names of the keys of a server with those of the keys that are empty.
func (l *look) scan(ctx context.Context, s *session) {
	var empty []*KeyState
	for i := range l.facts.Keys {
		if is := &l.facts.Keys[i]; is.Depth != nil && *is.Depth == 0 {
			empty = append(empty, is)
		}
	}
	var cursor uint64
	for len(empty) > 0 && l.facts.Scanned < mostScanned {
		page, next, err := s.page(ctx, cursor)
		if err != nil {
			l.facts.ScanErr = refusal(err)
			return
		}
		l.facts.Scanned += len(page)
		for _, is := range empty {
			is.compare(page)
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
}

func (s *session) page(ctx context.Context, cursor uint64) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return s.client.Scan(ctx, cursor, "", scanPage).Result()
}

func (k *KeyState) compare(names []string) {
	for _, name := range names {
		if len(k.Similar) < mostSimilar && name != k.Name && similar(k.Name, name) {
			k.Similar = append(k.Similar, strings.ToValidUTF8(name, "?"))
		}
	}
}

// similar reports whether two names have the same letters and digits, in whatever order, or one of them contains the
// other.
func similar(a, b string) bool {
	a, b = plain(a), plain(b)
	if min(len(a), len(b)) < leastSimilar {
		return a == b
	}
	return strings.Contains(a, b) || strings.Contains(b, a) || sorted(a) == sorted(b)
}

func sorted(text string) string { return string(slices.Sorted(slices.Values([]rune(text)))) }

// plain returns the letters and digits of a name, in lower case.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// probe pushes to a scratch key whose name begins with that of the first key, so that the same permissions are for it,
// and waits for the notification. It deletes the key, which otherwise expires.
func (l *look) probe(ctx context.Context, s *session) *Probe {
	if len(l.Keys) == 0 || len(l.Channels) == 0 {
		return nil
	}
	is := &Probe{Key: l.Keys[0].Name + ":doctor-" + rand.Text()}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	subscription := s.client.Subscribe(ctx, strings.TrimSuffix(l.Channels[0], l.Keys[0].Name)+is.Key)
	defer func() { _ = subscription.Close() }()
	if _, err := subscription.ReceiveTimeout(ctx, stepTimeout); err != nil {
		is.Err = refusal(err)
		return is
	}
	defer func() { _, _ = s.do(context.WithoutCancel(ctx), "DEL", is.Key) }()
	if err := s.push(ctx, is.Key); err != nil {
		is.Err = refusal(err)
		return is
	}
	for !is.Arrived {
		received, err := subscription.ReceiveTimeout(ctx, stepTimeout)
		if err != nil {
			return is // None arrived in time.
		}
		_, is.Arrived = received.(*goredis.Message)
	}
	return is
}

// push creates a scratch key. In case that nobody deletes it, it expires; both commands are sent at once.
func (s *session) push(ctx context.Context, key string) error {
	var pushed *goredis.IntCmd
	_, err := s.client.Pipelined(ctx, func(pipeline goredis.Pipeliner) error {
		pushed = pipeline.LPush(ctx, key, "probe")
		return pipeline.Expire(ctx, key, scratchLife).Err()
	})
	if pushed.Err() == nil {
		return nil // Whether the key may expire does not matter.
	}
	return err
}
