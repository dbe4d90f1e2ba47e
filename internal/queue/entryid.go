// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// entryID is the ID of an entry of a stream: a time in milliseconds, and a number. It is comparable.
type entryID struct{ time, number uint64 }

// parseID parses an ID in a reply.
func parseID(reply any) (entryID, error) {
	text, _ := reply.(string)
	first, second, found := strings.Cut(text, "-")
	milliseconds, err := strconv.ParseUint(first, 10, 64)
	if !found || err != nil {
		return entryID{}, resp.ErrMalformed
	}
	number, err := strconv.ParseUint(second, 10, 64)
	if err != nil {
		return entryID{}, resp.ErrMalformed
	}
	return entryID{milliseconds, number}, nil
}

// String returns the ID as Redis writes it.
func (id entryID) String() string {
	return strconv.FormatUint(id.time, 10) + "-" + strconv.FormatUint(id.number, 10)
}

// at returns the time in the ID.
func (id entryID) at() time.Time { return time.UnixMilli(int64(min(id.time, math.MaxInt64))) }

// before reports whether an entry with this ID is older.
func (id entryID) before(than entryID) bool {
	return cmp.Or(cmp.Compare(id.time, than.time), cmp.Compare(id.number, than.number)) < 0
}

// next returns the following ID. Redis before 6.2 has no ranges that begin after an ID.
func (id entryID) next() entryID {
	if id.number == math.MaxUint64 {
		return entryID{time: id.time + 1}
	}
	return entryID{id.time, id.number + 1}
}
