// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// pendingPerPage is how many pending entries one XPENDING asks for.
	pendingPerPage = 1000
	// noSuchGroup is the beginning of the reply to XPENDING for a group that does not exist any longer.
	noSuchGroup = "NOGROUP"
)

// delivered are the entries that a group was given. If the stream has lost entries, some of them may still be pending
// without being there. It is empty if there is no doubt that all pending entries are there.
type delivered struct {
	group string
	// last is the last entry that the group was given.
	last entryID
}

// inDoubt reports whether pending entries may be gone.
func (d delivered) inDoubt() bool { return d.group != "" }

// commands returns the commands that show whether the oldest pending entry is older than the first entry. XRANGE
// returns the whole entry, because no command returns only its ID.
func (d delivered) commands(key string) [][]any {
	return [][]any{{"xpending", key, d.group}, {"xrange", key, "-", "+", "count", 1}}
}

// span is from the first to the last ID of something. It is empty if there is none.
type span struct{ first, last entryID }

var (
	// errPendingHidden is the error of a server that does not list pending entries, or does not allow to ask.
	errPendingHidden = errors.New("the server does not list pending entries")
	// errGroupGone is the error for a group that was removed after it was read.
	errGroupGone = errors.New("the consumer group was removed meanwhile")
)

// pendingSpan parses the reply to XPENDING for a whole group.
func pendingSpan(reply any) (is span, some bool, err error) {
	const least = 3
	parts, err := list(reply)
	if err != nil {
		return span{}, false, pendingError(err)
	}
	if len(parts) < least {
		return span{}, false, resp.ErrMalformed
	}
	if n, err := number(parts[0]); err != nil || n == 0 {
		return span{}, false, err
	}
	if is.first, err = parseID(parts[1]); err != nil {
		return span{}, false, err
	}
	is.last, err = parseID(parts[2])
	return is, true, err
}

// pendingError returns errPendingHidden or errGroupGone for a reply that means it, and other errors as they are.
func pendingError(err error) error {
	refusal, _ := errors.AsType[resp.Error](err)
	switch {
	case failure.IsUnsupported(refusal):
		return errPendingHidden
	case strings.HasPrefix(string(refusal), noSuchGroup):
		return errGroupGone
	}
	return err
}

// correctPending corrects the number of entries in progress of a reading whose pending entries are in doubt. It counts
// those from the first entry of the stream on, and not those that are gone: if the time is over, the number is too low
// and never too high. It does not count entries that the group was given after the reading, because these have counted
// as waiting.
func (e *entries) correctPending(ctx context.Context, is *reading, limit int64, until time.Time) error {
	pending, first, err := e.oldest(ctx, is.delivered)
	if err != nil || !pending.first.before(first) {
		return err
	}
	there, partial := int64(0), false
	if !pending.last.before(first) {
		there, partial, err = e.countPending(ctx, is.delivered.group, span{first, is.delivered.last}, limit, until)
		if err != nil {
			return err
		}
	}
	is.Trimmed = true
	is.Partial = is.Partial || partial && there < is.InProgress
	is.InProgress = min(is.InProgress, there)
	return nil
}

// oldest returns the pending entries and the ID of the first entry of the stream. If nothing is pending, or there is no
// entry, all IDs are zero: then nothing is known to be gone.
func (e *entries) oldest(ctx context.Context, of delivered) (pending span, first entryID, err error) {
	replies := e.pendingReplies
	if replies == nil {
		if replies, err = e.ask(ctx, of.commands(e.key)...); err != nil {
			return span{}, entryID{}, err
		}
	}
	pending, some, err := pendingSpan(replies[0])
	if err != nil || !some {
		return span{}, entryID{}, err
	}
	_, id, err := lastEntry(replies[1], 1)
	if err != nil || id == "" {
		return span{}, entryID{}, pendingError(err)
	}
	first, err = parseID(id)
	return pending, first, err
}

// countPending counts the pending entries with IDs in a span, until there are limit of them. It reads pages until the
// time is up, but at least one. partial reports whether there may be more.
func (e *entries) countPending(ctx context.Context, group string, in span, limit int64, until time.Time) (counted int64, partial bool, err error) {
	for counted < limit && !in.last.before(in.first) {
		replies, err := e.ask(ctx, []any{"xpending", e.key, group, in.first.String(), in.last.String(), pendingPerPage})
		if errors.Is(err, failure.ErrBusy) && counted > 0 {
			return counted, true, nil
		}
		if err != nil {
			return 0, false, err
		}
		found, id, err := lastEntry(replies[0], pendingPerPage)
		if err != nil {
			return 0, false, pendingError(err)
		}
		counted += found
		if found < pendingPerPage {
			return counted, false, nil
		}
		last, err := parseID(id)
		if err != nil {
			return 0, false, err
		}
		in.first = last.next()
		if time.Now().After(until) {
			break
		}
	}
	return counted, true, nil
}
