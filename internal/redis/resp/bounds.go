// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

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
	// ErrTooLarge ends a connection on which a reply exceeds the bounds.
	ErrTooLarge = errors.New("the reply is too large")

	errNotRESP = errors.New("the server does not speak the Redis protocol")
)

// bounds follows the framing of a stream of replies. The zero value is ready.
type bounds struct {
	line []byte // the header line that is being read
	skip int    // how many bytes of a string are still to come
	open []int  // how many elements of each enclosing aggregate are still to come
	size int    // bytes of the present reply

	count int     // complete replies
	first *string // the first reply, if it was an error
}

// onlyError returns the error that is all the server has said so far, or nil.
func (b *bounds) onlyError() *string {
	if b.count == 1 {
		return b.first
	}
	return nil
}

// check follows the next bytes of the stream.
func (b *bounds) check(next []byte) error {
	for len(next) > 0 {
		part := next
		if b.skip > 0 {
			part = next[:min(len(next), b.skip)]
		} else if newline := bytes.IndexByte(next, '\n'); newline >= 0 {
			part = next[:newline+1]
		}
		next = next[len(part):]
		if b.size += len(part); b.size > maxReplyBytes {
			return ErrTooLarge
		}
		if err := b.follow(part); err != nil {
			return err
		}
	}
	return nil
}

// follow takes bytes that belong to one string or to one line.
func (b *bounds) follow(part []byte) error {
	if b.skip > 0 {
		b.skip -= len(part)
		if b.skip == 0 {
			b.end()
		}
		return nil
	}
	b.line = append(b.line, part...)
	if len(b.line) > maxLineBytes {
		return ErrTooLarge
	}
	if b.line[len(b.line)-1] != '\n' {
		return nil
	}
	err := b.header(b.line[0], bytes.TrimSpace(b.line[1:]))
	b.line = b.line[:0]
	return err
}

// header interprets the line that begins a reply or an element of one.
func (b *bounds) header(kind byte, text []byte) error {
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		if kind == '-' && b.count == 0 && len(b.open) == 0 {
			reply := string(text)
			b.first = &reply
		}
		b.end()
		return nil
	case '$', '!', '=':
		return b.beginString(text)
	case '*', '~', '>':
		return b.beginAggregate(text, 1, 0)
	case '%':
		return b.beginAggregate(text, 2, 0)
	case '|': // Attributes, and then what they belong to.
		return b.beginAggregate(text, 2, 1)
	default:
		return errNotRESP
	}
}

func (b *bounds) beginString(length []byte) error {
	n, err := strconv.Atoi(string(length))
	switch {
	case err != nil:
		return errNotRESP
	case n > maxStringBytes:
		return ErrTooLarge
	case n < 0:
		b.end()
	default:
		b.skip = n + len("\r\n")
	}
	return nil
}

// beginAggregate begins what has so many elements for each one announced, and some more.
func (b *bounds) beginAggregate(announced []byte, each, more int) error {
	n, err := strconv.Atoi(string(announced))
	if err != nil {
		return errNotRESP
	}
	if n > maxElements || len(b.open) == maxDepth {
		return ErrTooLarge
	}
	if elements := max(n, 0)*each + more; elements > 0 { // Less than none means null.
		b.open = append(b.open, elements)
	} else {
		b.end()
	}
	return nil
}

// end is the end of an element, and of all aggregates it was the last one of.
func (b *bounds) end() {
	for last := len(b.open) - 1; last >= 0; last-- {
		b.open[last]--
		if b.open[last] > 0 {
			return
		}
		b.open = b.open[:last]
	}
	b.size = 0
	b.count++
}
