// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The limits of one reply. The replies that the operator asks for are much smaller. The client library allocates memory
// for the announced length before the bytes arrive, and recurses into nested arrays, so without limits a few bytes from
// a server could crash the process.
const (
	maxLineBytes   = 4 << 10
	maxStringBytes = 1 << 20
	// MaxReplyBytes is the size of the largest reply, in bytes.
	MaxReplyBytes = 4 << 20
	// maxMessageBytes is the limit of a reply for [GuardMessages]: there may be very many such connections. The longest
	// name of a key in a ScaledJob has 4 KiB.
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

	// ErrMalformed is returned for bytes that are not RESP, or not a complete reply.
	ErrMalformed = errors.New("malformed reply")

	errNotRESP = fmt.Errorf("%w: the server does not speak the Redis protocol", ErrMalformed)
)

// decoder decodes a stream of replies of RESP2 or RESP3 and checks them against the limits. It does not recurse, and
// allocates memory only for bytes that have arrived. The zero value only checks.
type decoder struct {
	most int  // the size of the largest reply, in bytes; 0 means MaxReplyBytes
	keep bool // whether replies are decoded

	line []byte      // the header line so far
	kind byte        // of the string that is being read
	skip int         // its remaining bytes, with the line end
	text []byte      // the string so far, if it is kept
	open []aggregate // those that enclose the next element
	size int         // bytes of the current reply so far
	all  int         // its elements so far, at all depths

	count int     // complete replies
	reply any     // the last of them, if it is kept
	first *string // the first of them, if it was an error
}

// aggregate is an array, a set, a map, a push message, or attributes with the reply that they describe.
type aggregate struct {
	kind     byte
	left     int   // remaining elements
	elements []any // those so far, if they are kept
}

// onlyError returns the error reply if that is the only reply so far, and nil otherwise.
func (d *decoder) onlyError() *string {
	if d.count == 1 {
		return d.first
	}
	return nil
}

func (d *decoder) limit() int { return cmp.Or(d.most, MaxReplyBytes) }

// check takes the next bytes of the stream.
func (d *decoder) check(next []byte) error {
	for len(next) > 0 {
		n, err := d.take(next)
		if err != nil {
			return err
		}
		next = next[n:]
	}
	return nil
}

// take takes the next bytes of the stream up to the end of a line or of a string, and returns how many these are.
func (d *decoder) take(next []byte) (n int, err error) {
	part := next
	if d.skip > 0 {
		part = next[:min(len(next), d.skip)]
	} else if newline := bytes.IndexByte(next, '\n'); newline >= 0 {
		part = next[:newline+1]
	}
	if d.size += len(part); d.size > d.limit() {
		return 0, ErrTooLarge
	}
	if d.skip > 0 {
		return len(part), d.takeString(part)
	}
	return len(part), d.takeLine(part)
}

// takeLine takes a part of the line at the start of a reply or of an element.
func (d *decoder) takeLine(part []byte) error {
	ended := part[len(part)-1] == '\n'
	if !ended || len(d.line) > 0 {
		d.line = append(d.line, part...)
		part = d.line
	}
	if len(part) > maxLineBytes {
		return ErrTooLarge
	}
	if !ended {
		return nil
	}
	d.line = d.line[:0]
	line, complete := bytes.CutSuffix(part, []byte("\r\n"))
	if !complete || len(line) == 0 {
		return ErrMalformed
	}
	if kind := line[0]; strings.IndexByte("+-:_,#(", kind) >= 0 {
		return d.simple(kind, line[1:])
	}
	return d.announced(line[0], line[1:])
}

// simple takes a reply or an element of one line.
func (d *decoder) simple(kind byte, text []byte) error {
	if kind == '-' && d.count == 0 && len(d.open) == 0 {
		reply := string(text)
		d.first = &reply
	}
	if !d.keep {
		d.end(nil)
		return nil
	}
	value, err := simpleValue(kind, string(text))
	if err != nil {
		return ErrMalformed
	}
	d.end(value)
	return nil
}

func simpleValue(kind byte, text string) (any, error) {
	switch kind {
	case '_':
		return nil, nil
	case '-':
		return Error(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case ',':
		return strconv.ParseFloat(text, 64)
	default:
		return text, nil
	}
}

// announced takes the line of a reply or an element that begins with its length or its number of elements.
func (d *decoder) announced(kind byte, announced []byte) error {
	const strung, aggregated, nullable = "$!=", "*~>%|", "$!=*~>%"
	n, err := strconv.Atoi(string(announced))
	isString := strings.IndexByte(strung, kind) >= 0
	switch {
	case !isString && strings.IndexByte(aggregated, kind) < 0:
		return errNotRESP
	case err != nil:
		return ErrMalformed
	case n == -1 && strings.IndexByte(nullable, kind) >= 0: // Null, as in RESP2.
		d.end(nil)
		return nil
	case n < 0:
		return ErrMalformed
	case !isString:
		return d.beginAggregate(kind, n)
	case n > min(maxStringBytes, d.limit()):
		return ErrTooLarge
	}
	d.kind, d.skip = kind, n+len("\r\n")
	return nil
}

// takeString takes a part of a string and of its line end.
func (d *decoder) takeString(part []byte) error {
	d.skip -= len(part)
	if d.keep && (d.skip > 0 || len(d.text) > 0) {
		d.text = append(d.text, part...)
		part = d.text
	}
	switch {
	case d.skip > 0:
		return nil
	case !d.keep:
		d.end(nil)
		return nil
	}
	text, complete := bytes.CutSuffix(part, []byte("\r\n"))
	if !complete {
		return ErrMalformed
	}
	d.end(stringValue(d.kind, string(text)))
	if d.text = d.text[:0]; cap(d.text) > mostKept {
		d.text = nil
	}
	return nil
}

func stringValue(kind byte, text string) any {
	switch kind {
	case '!':
		return Error(text)
	case '=': // The first four bytes are its format, such as "txt:".
		return text[min(len(text), len("txt:")):]
	}
	return text
}

// beginAggregate begins an aggregate for which this number was announced: of elements, or of pairs of them.
func (d *decoder) beginAggregate(kind byte, announced int) error {
	if announced > maxElements || len(d.open) == maxDepth {
		return ErrTooLarge
	}
	elements := announced
	switch kind {
	case '%':
		elements = 2 * announced
	case '|':
		elements = 2*announced + 1 // The last one is the reply that the attributes describe.
	}
	if d.all += elements; d.all > min(maxAllElements, d.limit()/leastElement) {
		return ErrTooLarge
	}
	begun := aggregate{kind: kind, left: elements}
	if elements == 0 {
		d.end(begun.value(d.keep))
		return nil
	}
	d.open = append(d.open, begun)
	return nil
}

// end ends an element, and each aggregate whose last element it is.
func (d *decoder) end(value any) {
	for last := len(d.open) - 1; last >= 0; last-- {
		inner := &d.open[last]
		if d.keep {
			inner.elements = append(inner.elements, value)
		}
		if inner.left--; inner.left > 0 {
			return
		}
		value = inner.value(d.keep)
		inner.elements = nil
		d.open = d.open[:last]
	}
	d.size, d.all = 0, 0
	d.count++
	d.reply = value
}

// value returns the value of a complete aggregate; nil if it is not kept.
func (a *aggregate) value(keep bool) any {
	switch {
	case !keep:
		return nil
	case a.kind == '|':
		return a.elements[len(a.elements)-1]
	case a.kind == '>':
		return Push(a.elements)
	case a.elements == nil:
		return []any{}
	}
	return a.elements
}
