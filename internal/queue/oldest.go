// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// HasOldest reports whether Redis knows when the messages of the queue have come: the entries of a stream with their IDs,
// and the members of a sorted set with the window Due, when they became due.
func (q Queue) HasOldest() bool {
	return q.Type == Stream || q.Type == SortedSet && q.Window == Due
}

// Oldest returns since when the oldest outstanding message of each queue is outstanding, in the order of the queues; zero
// if there is none, or if that is not known. counts are the counts of the queues. Oldest asks for whole messages, because no
// command returns only their times, and drops them. No decision depends on it, so errors are not returned: a message that
// is too large for a reply, for example, has no known time.
func (r *Reader) Oldest(ctx context.Context, source Source, counts []Count) []time.Time {
	oldest := make([]time.Time, len(source.Queues))
	parts := []part{{Source: source}}
	if source.Endpoint.Mode != auth.ModeStandalone {
		var err error
		if parts, err = r.split(source); err != nil {
			return oldest
		}
	} else {
		parts[0].place.Owner = source.Endpoint
		for i := range source.Queues {
			parts[0].at = append(parts[0].at, i)
		}
	}
	now := r.now()
	for _, each := range parts {
		conn := r.pool.ConnFor(source.Tenant, each.place.Owner, source.Database)
		for i, queue := range each.Queues {
			if count := counts[each.at[i]]; queue.HasOldest() && count.Outstanding() > 0 {
				oldest[each.at[i]] = plausible(queue.oldest(ctx, conn, count, now), now)
			}
		}
	}
	return oldest
}

// plausible returns the time if a message can have come then. IDs and scores may be any numbers.
func plausible(at, now time.Time) time.Time {
	if at.Before(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)) || at.After(now) {
		return time.Time{}
	}
	return at
}

// oldest returns since when the oldest message of a queue is outstanding; zero if that is not known.
func (q Queue) oldest(ctx context.Context, conn *connection.Conn, count Count, now time.Time) time.Time {
	commands := q.oldestCommands(count, now)
	var replies []any
	err := conn.Do(ctx, func(ctx context.Context, client redis.Cmdable) (err error) {
		replies, err = connection.Pipeline(ctx, client, commands)
		return err
	})
	if err != nil {
		return time.Time{}
	}
	var first time.Time
	for i, reply := range replies {
		at, err := q.oldestIn(commands[i][0], reply)
		if err != nil {
			return time.Time{} // Another one may be older.
		}
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// oldestCommands returns the commands whose replies have the oldest message: of a stream with a group the oldest pending
// entry, and the first one that the group has not read.
func (q Queue) oldestCommands(count Count, now time.Time) (commands [][]any) {
	switch {
	case q.Type == SortedSet:
		return [][]any{{"zrange", q.Key, "-inf", lastDue(now, q.Unit), "byscore", "limit", 0, 1, "withscores"}}
	case q.Group == "":
		return [][]any{{"xrange", q.Key, "-", "+", "count", 1}}
	}
	if count.InProgress > 0 {
		commands = append(commands, []any{"xpending", q.Key, q.Group})
	}
	last, _, _ := strings.Cut(count.Progress, "/")
	if count.Waiting > 0 && last != lastID {
		commands = append(commands, []any{"xrange", q.Key, "(" + last, "+", "count", 1})
	}
	return commands
}

// oldestIn returns the time in the reply to one of these commands; zero if the reply has no message.
func (q Queue) oldestIn(command, reply any) (time.Time, error) {
	switch command {
	case "zrange":
		score, found, err := firstScore(reply)
		if err != nil || !found {
			return time.Time{}, err
		}
		return dueTime(score, q.Unit), nil
	case "xpending":
		pending, some, err := pendingSpan(reply)
		if err != nil || !some {
			return time.Time{}, err
		}
		return pending.first.at(), nil
	}
	_, id, err := lastEntry(reply, 1)
	if err != nil || id == "" {
		return time.Time{}, err
	}
	first, err := parseID(id)
	return first.at(), err
}

// firstScore returns the score of the first member in a reply to ZRANGE, and false if there is none.
func firstScore(reply any) (score float64, found bool, err error) {
	members, err := list(reply)
	if err != nil || len(members) == 0 {
		return 0, false, err
	}
	if pair, ok := members[0].([]any); ok { // RESP3
		members = pair
	}
	const pair = 2
	if len(members) != pair {
		return 0, false, resp.ErrMalformed
	}
	score, err = scoreOf(members[1])
	return score, true, err
}
