// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
)

// The limits of one reply. The replies that the operator asks for are much smaller. The client library allocates memory
// for the announced length before the bytes arrive, and recurses into nested arrays, so without limits a few bytes from
// a server could crash the process.
const (
	maxLineBytes   = 4 << 10
	maxStringBytes = 1 << 20
	// MaxReplyBytes is the size of the largest reply, in bytes.
	MaxReplyBytes = 4 << 20
	// maxMessageBytes is the limit of a reply for [GuardMessages]: there may be very many such connections. The longest name
	// of a key in a ScaledJob has 4 KiB.
	maxMessageBytes = 16 << 10
	// leastElement is the size of the shortest element, in bytes.
	leastElement   = 3
	maxElements    = 1 << 16 // of one aggregate
	maxAllElements = 1 << 18
	maxDepth       = 8
)

var (
	// ErrTooLarge is returned when a reply exceeds a limit. The connection cannot be used any longer.
	ErrTooLarge = errors.New("the reply is too large")

	errNotRESP = errors.New("the server does not speak the Redis protocol")
)

// bounds checks a stream of replies against the limits. The zero value is ready.
type bounds struct {
	most int    // size of a reply; 0 means MaxReplyBytes
	line []byte // the header line that is being read
	skip int    // remaining bytes of the current string
	open []int  // remaining elements of each enclosing aggregate
	size int    // bytes of the current reply so far
	all  int    // elements of the current reply so far, at all depths

	count int     // complete replies
	first *string // the first reply, if it was an error
}

// onlyError returns the error reply if that is the only reply so far, and nil otherwise.
func (b *bounds) onlyError() *string {
	if b.count == 1 {
		return b.first
	}
	return nil
}

func (b *bounds) limit() int { return cmp.Or(b.most, MaxReplyBytes) }

// check checks the next bytes of the stream.
func (b *bounds) check(next []byte) error {
	for len(next) > 0 {
		part := next
		if b.skip > 0 {
			part = next[:min(len(next), b.skip)]
		} else if newline := bytes.IndexByte(next, '\n'); newline >= 0 {
			part = next[:newline+1]
		}
		next = next[len(part):]
		if b.size += len(part); b.size > b.limit() {
			return ErrTooLarge
		}
		if err := b.follow(part); err != nil {
			return err
		}
	}
	return nil
}

// follow checks bytes that belong to one string or to one line.
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

// header parses the line at the start of a reply or of an element.
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
	case '|': // Attributes, followed by the reply that they describe.
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
	case n > min(maxStringBytes, b.limit()):
		return ErrTooLarge
	case n < 0:
		b.end()
	default:
		b.skip = n + len("\r\n")
	}
	return nil
}

// beginAggregate starts an aggregate with n × each + more elements, where n is the announced number.
func (b *bounds) beginAggregate(announced []byte, each, more int) error {
	n, err := strconv.Atoi(string(announced))
	if err != nil {
		return errNotRESP
	}
	if n > maxElements || len(b.open) == maxDepth {
		return ErrTooLarge
	}
	elements := max(n, 0)*each + more // A negative number means null.
	if b.all += elements; b.all > min(maxAllElements, b.limit()/leastElement) {
		return ErrTooLarge
	}
	if elements > 0 {
		b.open = append(b.open, elements)
	} else {
		b.end()
	}
	return nil
}

// end ends an element, and each aggregate whose last element it is.
func (b *bounds) end() {
	for last := len(b.open) - 1; last >= 0; last-- {
		b.open[last]--
		if b.open[last] > 0 {
			return
		}
		b.open = b.open[:last]
	}
	b.size, b.all = 0, 0
	b.count++
}
