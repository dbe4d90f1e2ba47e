// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// entriesPerPage is how many entries one XRANGE asks for. XRANGE returns whole entries, and the size of a reply is
	// limited.
	entriesPerPage = 100
	// fewerEntries divides the page size after a reply that was too large.
	fewerEntries = 10
	// lastID is the highest ID that an entry can have. XRANGE rejects ranges that start after it.
	lastID = "18446744073709551615-18446744073709551615"
	// noSuchKey is the beginning of the reply to XINFO GROUPS for a key that does not exist.
	noSuchKey = "ERR no such key"
)

// backlog is the part of a stream that must be counted: the entries after an ID.
type backlog struct {
	after string
	// most is the maximum number of entries after the ID. It is 0 if there is nothing to count.
	most int64
}

// group has the fields of a consumer group in XINFO GROUPS.
type group struct {
	pending int64
	// read is the number of entries, of all that were ever added, up to the last one that the group has read. lag is
	// the number of entries that it has not read. They are -1 if the server does not know them, or if the value is
	// impossible.
	read, lag int64
	// last is the ID of the last entry that the group has read.
	last string
}

// lagIn returns the lag, and whether it is correct for a stream of this length. Redis computes lag as the number of
// entries that were ever added minus read. Entries that were trimmed or deleted before the group has read them may then
// stay in lag forever. So lag is trusted only if read + lag is the length, which means that no entry is missing. A
// server that does not know read computes lag from the position of the group, and returns it only if it is correct.
func (g *group) lagIn(length int64) (lag int64, certain bool) {
	possible := g.lag >= 0 && g.lag <= length
	return g.lag, possible && (g.read < 0 || g.read == length-g.lag)
}

// streamReading parses the replies to XLEN and XINFO GROUPS.
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
	is.doubt(found, total, name)
	if lag, certain := found.lagIn(total); certain {
		is.Waiting = lag
	} else if found.last != lastID {
		is.backlog = backlog{after: found.last, most: total}
	}
	return is, nil
}

// doubt finds out whether pending entries may be gone from a stream of this length. If it is empty, all are. If the
// server says that no entry was ever removed from it, none is; so most streams cost no further command.
func (r *reading) doubt(of *group, length int64, name string) {
	switch lag, certain := of.lagIn(length); {
	case of.pending == 0:
	case length == 0:
		r.InProgress, r.Trimmed = 0, true
	case certain && of.read >= 0 && of.read == length-lag:
	default:
		if last, err := parseID(of.last); err == nil {
			r.delivered = delivered{group: name, last: last}
		}
	}
}

// findGroup returns the group with this name in the reply to XINFO GROUPS, or nil.
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
		if resp.Field(each, "name") == any(name) {
			return newGroup(each)
		}
	}
	return nil, nil
}

func newGroup(reply any) (*group, error) {
	pending, err := number(resp.Field(reply, "pending"))
	if err != nil {
		return nil, err
	}
	read, err := optionalNumber(resp.Field(reply, "entries-read"))
	if err != nil {
		return nil, err
	}
	lag, err := optionalNumber(resp.Field(reply, "lag"))
	if err != nil {
		return nil, err
	}
	last, ok := resp.Field(reply, "last-delivered-id").(string)
	if !ok {
		return nil, resp.ErrMalformed
	}
	return &group{pending: pending, read: read, lag: lag, last: last}, nil
}

// optionalNumber parses a field that a server may not know, and does not have before Redis 7.0. XGROUP SETID and
// ENTRIESREAD can make it negative.
func optionalNumber(reply any) (int64, error) {
	if reply == nil {
		return -1, nil
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, resp.ErrMalformed
	}
	return max(n, -1), nil
}

// entries are those of one stream on one server.
type entries struct {
	server

	key string
	// along are commands to send with the first page, and pendingReplies are the replies to them; nil if there are none.
	along          [][]any
	pendingReplies []any
}

// ask sends commands in one round trip and returns their replies.
func (e *entries) ask(ctx context.Context, commands ...[]any) (replies []any, err error) {
	err = e.conn.Do(ctx, func(ctx context.Context, client connection.Client) (err error) {
		replies, err = e.read(ctx, client, commands)
		return err
	})
	return replies, err
}

// count counts a backlog up to limit. It reads pages until the time is up, but at least one. partial reports whether
// there may be more entries. Each page is a call of its own, so that other commands to the server run in between. An
// entry that is too large for a reply counts and ends the counting.
func (e *entries) count(ctx context.Context, b backlog, limit int64, until time.Time) (counted int64, partial bool, err error) {
	wanted := min(b.most, limit)
	for page := int64(entriesPerPage); counted < wanted; {
		began := time.Now()
		found, last, err := e.after(ctx, b.after, page)
		switch {
		case errors.Is(err, resp.ErrTooLarge) && page > 1:
			page /= fewerEntries
			until = until.Add(time.Since(began)) // The failed call counted nothing, so its time does not count.
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

// after returns the number of entries after an ID, counted up to most, and the ID of the last of them. The commands
// along are sent once: one of their replies may be what is too large.
func (e *entries) after(ctx context.Context, id string, most int64) (found int64, last string, err error) {
	page := []any{"xrange", e.key, "(" + id, "+", "count", most}
	replies, err := e.ask(ctx, slices.Concat([][]any{page}, e.along)...)
	if err == nil && e.along != nil {
		e.pendingReplies = replies[1:]
	}
	e.along = nil
	if err != nil {
		return 0, "", err
	}
	return lastEntry(replies[0], most)
}

// lastEntry returns the number of entries in the reply to XRANGE, or to XPENDING for a range, and the ID of the last
// one.
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
