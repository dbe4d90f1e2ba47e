// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"strconv"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// reading is the result of the commands of a queue.
type reading struct {
	Count
	// backlog is the part of a stream that is still to be counted.
	backlog backlog
	// delivered are the entries among which the pending ones are still to be looked for.
	delivered delivered
}

// commands returns the commands that read the depth of the queue.
func (q Queue) commands(now time.Time) [][]any {
	switch q.Type {
	case Set:
		return [][]any{{"scard", q.Key}}
	case Hash:
		return [][]any{{"hlen", q.Key}}
	case SortedSet:
		return q.windowCommands(lastDue(now, q.Unit))
	case Stream:
		if q.Group == "" {
			return [][]any{{"xlen", q.Key}}
		}
		return [][]any{{"xlen", q.Key}, {"xinfo", "groups", q.Key}}
	default:
		return [][]any{{"llen", q.Key}}
	}
}

// windowCommands returns the commands for a sorted set. due is the highest score that is due.
func (q Queue) windowCommands(due string) [][]any {
	switch q.Window {
	case Due:
		return [][]any{
			{"zcount", q.Key, "-inf", due},
			{"zrange", q.Key, "(" + due, "+inf", "byscore", "limit", 0, 1, "withscores"},
		}
	case Live:
		return [][]any{{"zcount", q.Key, "(" + due, "+inf"}}
	default:
		return [][]any{{"zcard", q.Key}}
	}
}

// read parses the replies to the commands.
func (q Queue) read(replies []any, now time.Time) (reading, error) {
	if q.Type == Stream && q.Group != "" {
		return streamReading(replies[0], replies[1], q.Group)
	}
	n, err := number(replies[0])
	if err != nil {
		return reading{}, err
	}
	is := reading{Count: Count{Waiting: n}}
	if q.InProgress && q.Type != Stream {
		is.Count = Count{InProgress: n}
	}
	if q.Type == SortedSet && q.Window == Due {
		is.NextDue, err = nextDue(replies[1], q.Unit, now)
	}
	return is, err
}

// nextDue returns when the first member in a reply to ZRANGE falls due. It is zero if there is no member, or if that
// time is not after now.
func nextDue(reply any, unit Unit, now time.Time) (time.Time, error) {
	score, found, err := firstScore(reply)
	if err != nil || !found {
		return time.Time{}, err
	}
	if at := dueTime(score, unit); at.After(now) {
		return at, nil
	}
	return time.Time{}, nil
}

// scoreOf parses a score, which is a string in RESP2.
func scoreOf(reply any) (float64, error) {
	switch score := reply.(type) {
	case float64:
		return score, nil
	case string:
		parsed, err := strconv.ParseFloat(score, 64)
		if err != nil {
			return 0, resp.ErrMalformed
		}
		return parsed, nil
	default:
		return 0, resp.ErrMalformed
	}
}

var (
	errNegative = errors.New("the server reports a negative number of messages")
	// errUnread is the error of a read that ended without a reply and without another error.
	errUnread = errors.New("the length of the list was not read")
)

// number parses a reply that is a number of messages.
func number(reply any) (int64, error) {
	switch n := reply.(type) {
	case int64:
		if n < 0 {
			return 0, errNegative
		}
		return n, nil
	case resp.Error:
		return 0, n
	default:
		return 0, resp.ErrMalformed
	}
}

// list parses a reply that is an array.
func list(reply any) ([]any, error) {
	switch l := reply.(type) {
	case []any:
		return l, nil
	case resp.Error:
		return nil, l
	default:
		return nil, resp.ErrMalformed
	}
}
