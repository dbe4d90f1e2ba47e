// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

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
