// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"bytes"
	"errors"
	"strconv"
)

// The bounds of one reply. What the operator asks for stays far below. The client library
// allocates what a length announces before the bytes arrive, and recurses into what is
// nested, so without bounds a few bytes from a server could end the process.
const (
	maxLineBytes   = 4 << 10
	maxStringBytes = 1 << 20
	maxReplyBytes  = 4 << 20
	maxElements    = 1 << 16
	maxDepth       = 8
)

var (
	errReplyTooLarge = errors.New("the reply is too large")
	errNotRESP       = errors.New("the server does not speak the Redis protocol")
)

// replyBounds follows the framing of a stream of replies. The zero value is ready.
type replyBounds struct {
	line []byte // the header line that is being read
	skip int    // how many bytes of a string are still to come
	open []int  // how many elements of each enclosing aggregate are still to come
	size int    // bytes of the present reply

	count int     // complete replies
	first *string // the first reply, if it was an error
}

// onlyError returns the error that is all the server has said so far, or nil.
func (r *replyBounds) onlyError() *string {
	if r.count == 1 {
		return r.first
	}
	return nil
}

// check follows the next bytes of the stream.
func (r *replyBounds) check(b []byte) error {
	for len(b) > 0 {
		part := b
		if r.skip > 0 {
			part = b[:min(len(b), r.skip)]
		} else if newline := bytes.IndexByte(b, '\n'); newline >= 0 {
			part = b[:newline+1]
		}
		b = b[len(part):]
		if r.size += len(part); r.size > maxReplyBytes {
			return errReplyTooLarge
		}
		if err := r.follow(part); err != nil {
			return err
		}
	}
	return nil
}

// follow takes bytes that belong to one string or to one line.
func (r *replyBounds) follow(part []byte) error {
	if r.skip > 0 {
		r.skip -= len(part)
		if r.skip == 0 {
			r.end()
		}
		return nil
	}
	r.line = append(r.line, part...)
	if len(r.line) > maxLineBytes {
		return errReplyTooLarge
	}
	if r.line[len(r.line)-1] != '\n' {
		return nil
	}
	err := r.header(r.line[0], bytes.TrimSpace(r.line[1:]))
	r.line = r.line[:0]
	return err
}

// header interprets the line that begins a reply or an element of one.
func (r *replyBounds) header(kind byte, text []byte) error {
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		if kind == '-' && r.count == 0 && len(r.open) == 0 {
			reply := string(text)
			r.first = &reply
		}
		r.end()
		return nil
	case '$', '!', '=':
		return r.beginString(text)
	case '*', '~', '>':
		return r.beginAggregate(text, 1, 0)
	case '%':
		return r.beginAggregate(text, 2, 0)
	case '|': // Attributes, and then what they belong to.
		return r.beginAggregate(text, 2, 1)
	default:
		return errNotRESP
	}
}

func (r *replyBounds) beginString(length []byte) error {
	n, err := strconv.Atoi(string(length))
	switch {
	case err != nil:
		return errNotRESP
	case n > maxStringBytes:
		return errReplyTooLarge
	case n < 0:
		r.end()
	default:
		r.skip = n + len("\r\n")
	}
	return nil
}

// beginAggregate begins what has so many elements for each one announced, and some more.
func (r *replyBounds) beginAggregate(announced []byte, each, more int) error {
	n, err := strconv.Atoi(string(announced))
	if err != nil {
		return errNotRESP
	}
	if n > maxElements || len(r.open) == maxDepth {
		return errReplyTooLarge
	}
	if elements := max(n, 0)*each + more; elements > 0 { // Less than none means null.
		r.open = append(r.open, elements)
	} else {
		r.end()
	}
	return nil
}

// end is the end of an element, and of all aggregates it was the last one of.
func (r *replyBounds) end() {
	for last := len(r.open) - 1; last >= 0; last-- {
		r.open[last]--
		if r.open[last] > 0 {
			return
		}
		r.open = r.open[:last]
	}
	r.size = 0
	r.count++
}
