// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/moment"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// oldestTimeout is how long it may take altogether to ask for the oldest messages. Messages that arrive meanwhile
	// wait.
	oldestTimeout = 250 * time.Millisecond
	// clockSkew is how far the clock that made an ID may be ahead of the operator's.
	clockSkew = 5 * time.Second
)

// HasOldest reports whether Redis knows when the messages of the queue have come: the entries of a stream with their
// IDs, and the members of a sorted set with the window Due, when they became due.
func (q Queue) HasOldest() bool {
	return q.Type == Stream || q.Type == SortedSet && q.Window == Due
}

// Oldest returns since when the oldest outstanding message of each queue is outstanding, in the order of the queues;
// zero if there is none, or if that can't be known. counts are the counts of the queues, and before are the previous
// results: that of a queue stays if the server does not answer, and complete is false then. Oldest takes at most 250
// ms. It asks for whole messages, because no command returns only their times, and drops them. No decision depends on
// it, so its failures do not affect other calls.
func (r *Reader) Oldest(
	ctx context.Context, source Source, counts []Count, before []time.Time,
) (oldest []time.Time, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, oldestTimeout)
	defer cancel()
	oldest, complete = make([]time.Time, len(source.Queues)), true
	for i, queue := range source.Queues {
		if counts[i].Outstanding() == 0 || !queue.HasOldest() {
			continue
		}
		at, err := r.oldest(ctx, source, queue, counts[i])
		if err != nil {
			at, complete = before[i], false
		}
		oldest[i] = at
	}
	return oldest, complete
}

// oldest returns since when the oldest message of a queue is outstanding; zero if that can't be known.
func (r *Reader) oldest(ctx context.Context, source Source, queue Queue, count Count) (first time.Time, err error) {
	route, err := r.directory.Route(source.Endpoint, queue.Key)
	if err != nil {
		return time.Time{}, err
	}
	now := r.now()
	commands := queue.oldestCommands(count, now)
	var replies []any
	err = r.pool.ConnFor(source.Tenant, route.Owner, source.Database).Ask(ctx,
		func(ctx context.Context, client connection.Client) (err error) {
			replies, err = client.Read(ctx, commands...)
			return err
		})
	if err != nil {
		return time.Time{}, err
	}
	for i, reply := range replies {
		at, err := queue.oldestIn(commands[i][0], reply)
		if err != nil {
			return time.Time{}, err // Another message may be older.
		}
		first = moment.First(first, at)
	}
	return plausible(first, now), nil
}

// plausible returns the time if a message can have come then. IDs and scores may be any numbers.
func plausible(at, now time.Time) time.Time {
	switch {
	case at.Before(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)), at.Sub(now) > clockSkew:
		return time.Time{}
	case at.After(now):
		return now
	}
	return at
}

// oldestCommands returns the commands whose replies have the oldest message: of a stream with a group the oldest
// pending entry, and the first one that the group has not read.
func (q Queue) oldestCommands(count Count, now time.Time) (commands [][]any) {
	switch {
	case q.Type == SortedSet:
		return [][]any{{"zrange", q.Key, "-inf", lastDue(now, q.Unit), "byscore", "limit", 0, 1, "withscores"}}
	case q.Group == "" || count.GroupMissing:
		return [][]any{{"xrange", q.Key, "-", "+", "count", 1}}
	}
	if count.InProgress > 0 && !count.Trimmed { // Otherwise the oldest pending entry may be gone.
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
