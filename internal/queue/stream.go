// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// entriesPerPage is how many entries are asked for at once to count them. They come with all
	// they hold, and a reply is bounded.
	entriesPerPage = 100
	// fewerEntries is by what a page is divided if it was too large.
	fewerEntries = 10
	// lastID is that of the last entry there can be. A server refuses to look behind it.
	lastID = "18446744073709551615-18446744073709551615"
	// noSuchKey is how the answer begins to a question about the groups of a missing key.
	noSuchKey = "ERR no such key"
)

// backlog is a part of a stream that has to be counted: the entries after an ID.
type backlog struct {
	after string
	// most is how many of them are to be counted at most. It is 0 if there is nothing to count.
	most int64
}

// group is what a server says of a consumer group.
type group struct {
	pending int64
	// read is how many entries of all that were ever added the group has passed, and lag how many
	// it was not given yet. Either is -1 if the server does not know, or says what can't be.
	read, lag int64
	// last is the ID of the last entry that the group was given.
	last string
}

// lagIn returns the lag, if it is certain in a stream of this length. A server that keeps count of
// what a group has passed takes that from how many entries were ever added, and then those that
// were trimmed or deleted before the group got to them may stay in the lag for ever. So that is
// believed as long as no entry is missing. A server that keeps no count takes the lag from where
// the group stands, and tells it only if that is certain.
func (g *group) lagIn(length int64) (lag int64, certain bool) {
	possible := g.lag >= 0 && g.lag <= length
	return g.lag, possible && (g.read < 0 || g.read == length-g.lag)
}

// streamReading makes sense of the length of a stream and the list of its groups.
func streamReading(length, groups any, name string) (reading, error) {
	total, err := number(length)
	if err != nil {
		return reading{}, err
	}
	if text, ok := groups.(resp.Error); ok && strings.HasPrefix(string(text), noSuchKey) {
		return reading{}, nil
	}
	found, err := findGroup(groups, name)
	switch {
	case err != nil:
		return reading{}, err
	case found == nil && total == 0:
		return reading{}, nil
	case found == nil:
		return reading{Count: Count{Waiting: 1, GroupMissing: true}}, nil
	}
	progress := found.last + "/" + strconv.FormatInt(found.pending, 10)
	is := reading{Count: Count{InProgress: found.pending, Progress: progress}}
	if lag, certain := found.lagIn(total); certain {
		is.Waiting = lag
	} else if found.last != lastID {
		is.backlog = backlog{after: found.last, most: total}
	}
	return is, nil
}

// findGroup returns the group of that name in the reply to XINFO GROUPS, or nil.
func findGroup(reply any, name string) (*group, error) {
	groups, err := list(reply)
	if err != nil {
		return nil, err
	}
	for _, each := range groups {
		fields, err := list(each)
		if err != nil || len(fields)%2 != 0 {
			return nil, resp.ErrMalformed
		}
		named := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			key, ok := fields[i].(string)
			if !ok {
				return nil, resp.ErrMalformed
			}
			named[key] = fields[i+1]
		}
		if named["name"] == any(name) {
			return newGroup(named)
		}
	}
	return nil, nil
}

func newGroup(fields map[string]any) (*group, error) {
	pending, err := number(fields["pending"])
	if err != nil {
		return nil, err
	}
	read, err := progress(fields["entries-read"])
	if err != nil {
		return nil, err
	}
	lag, err := progress(fields["lag"])
	if err != nil {
		return nil, err
	}
	last, ok := fields["last-delivered-id"].(string)
	if !ok {
		return nil, resp.ErrMalformed
	}
	return &group{pending: pending, read: read, lag: lag, last: last}, nil
}

// progress is a number that a server may not know, and does not tell before Redis 7.0. Whoever sets
// the position of a group may have it say less than 0.
func progress(reply any) (int64, error) {
	if reply == nil {
		return -1, nil
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, resp.ErrMalformed
	}
	return max(n, -1), nil
}

// countBacklog counts a backlog up to a limit, in pages, of which it asks for none after until but
// the first. It reports whether that may be not all. Each page is a call of its own: what others
// ask of the server need not wait for all of them. An entry that exceeds the bounds of a reply
// counts, and ends the counting.
func countBacklog(
	ctx context.Context, conn *connection.Conn, key string, b backlog, limit int64, until time.Time,
) (counted int64, partial bool, err error) {
	wanted := min(b.most, limit)
	for page := int64(entriesPerPage); counted < wanted; {
		began := time.Now()
		found, last, err := entriesAfter(ctx, conn, key, b.after, page)
		switch {
		case errors.Is(err, resp.ErrTooLarge) && page > 1:
			page /= fewerEntries
			until = until.Add(time.Since(began)) // Nothing was counted in that time.
			continue
		case errors.Is(err, resp.ErrTooLarge):
			return counted + 1, true, nil
		case errors.Is(err, failure.ErrBusy) && counted > 0:
			return counted, true, nil
		case err != nil:
			return 0, false, err
		}
		counted += found
		b.after = last
		if found < page {
			return min(counted, wanted), false, nil
		}
		if time.Now().After(until) {
			break
		}
	}
	return min(counted, wanted), wanted < b.most || counted < wanted, nil
}

// entriesAfter returns how many entries follow an ID, of at most so many, and the ID of the last.
func entriesAfter(ctx context.Context, conn *connection.Conn, key, after string, most int64) (found int64, last string, err error) {
	err = conn.Do(ctx, func(ctx context.Context, client redis.Cmdable) error {
		replies, err := pipeline(ctx, client, [][]any{{"xrange", key, "(" + after, "+", "count", most}})
		if err != nil {
			return err
		}
		found, last, err = lastEntry(replies[0], most)
		return err
	})
	return found, last, err
}

// lastEntry returns how many entries there are in the reply to XRANGE, and the ID of the last.
func lastEntry(reply any, most int64) (found int64, last string, err error) {
	entries, err := list(reply)
	if err != nil || len(entries) == 0 {
		return 0, "", err
	}
	found = int64(len(entries))
	entry, err := list(entries[found-1])
	if err != nil || len(entry) == 0 || found > most {
		return 0, "", resp.ErrMalformed
	}
	last, ok := entry[0].(string)
	if !ok {
		return 0, "", resp.ErrMalformed
	}
	return found, last, nil
}
