// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// ErrMalformed is the error of decoding what is not RESP, or not complete.
var ErrMalformed = errors.New("malformed reply")

// Error is an error reply.
type Error string

// Error returns what the server says.
func (e Error) Error() string { return string(e) }

// RedisError makes the client library treat it as a reply: the connection that brought it is still good.
func (Error) RedisError() {}

// Push is a message that the server sends on its own, such as one to a subscriber in RESP3. It answers no command.
type Push []any

// Decode decodes raw, which has to be one whole reply of RESP2 or RESP3. The result is one of these types:
//
//   - nil for a null,
//   - int64 for an integer, and float64 for a double,
//   - string for a simple, bulk or verbatim string, and for a boolean or big number as it is written,
//   - [Error] for an error,
//   - []any for an array or a set, and for a map its keys and values in turn, as RESP2 has them,
//   - [Push] for a push message.
//
// It leaves attributes out. What it takes in memory is proportional to raw.
func Decode(raw []byte) (reply any, err error) {
	reply, rest, err := DecodeFirst(raw)
	if err == nil && len(rest) > 0 {
		return nil, ErrMalformed
	}
	return reply, err
}

// DecodeFirst decodes the reply that raw begins with as [Decode] does, and also returns what follows it.
func DecodeFirst(raw []byte) (reply any, rest []byte, err error) {
	d := decoder{rest: raw}
	reply, err = d.next(0)
	if err != nil {
		return nil, nil, err
	}
	return reply, d.rest, nil
}

type decoder struct{ rest []byte }

// next decodes a reply at this depth of nesting.
func (d *decoder) next(depth int) (any, error) {
	line, rest, ok := bytes.Cut(d.rest, []byte("\r\n"))
	if !ok || len(line) == 0 || depth > maxDepth || bytes.IndexByte(line, '\n') >= 0 {
		return nil, ErrMalformed
	}
	d.rest = rest
	text := string(line[1:])
	switch line[0] {
	case '+', '#', '(':
		return text, nil
	case '-':
		return Error(text), nil
	case '_':
		return nil, nil
	case ':':
		return number(strconv.ParseInt(text, 10, 64))
	case ',':
		return number(strconv.ParseFloat(text, 64))
	default:
		return d.announced(line[0], text, depth)
	}
}

// number replaces the error of parsing a number.
func number[N any](n N, err error) (any, error) {
	if err != nil {
		return nil, ErrMalformed
	}
	return n, nil
}

// nullable are the kinds that stand for a null where they announce -1, as RESP2 has it.
const nullable = "$=!*~>%"

// announced decodes what begins with its length or with the number of its elements.
func (d *decoder) announced(kind byte, announced string, depth int) (any, error) {
	n, err := strconv.Atoi(announced)
	switch {
	case err != nil || n < -1 || n > len(d.rest):
		return nil, ErrMalformed
	case n == -1 && strings.IndexByte(nullable, kind) >= 0:
		return nil, nil
	}
	switch kind {
	case '$', '=', '!':
		return d.text(kind, n)
	case '*', '~':
		return d.elements(n, depth)
	case '>':
		elements, err := d.elements(n, depth)
		return Push(elements), err
	case '%':
		return d.elements(2*n, depth)
	case '|':
		if _, err := d.elements(2*n, depth); err != nil {
			return nil, err
		}
		return d.next(depth + 1)
	default:
		return nil, ErrMalformed
	}
}

// text decodes a string of this length, and the end of its line.
func (d *decoder) text(kind byte, length int) (any, error) {
	text, ok := bytes.CutSuffix(d.rest[:min(len(d.rest), length+len("\r\n"))], []byte("\r\n"))
	if !ok || len(text) != length {
		return nil, ErrMalformed
	}
	d.rest = d.rest[length+len("\r\n"):]
	switch kind {
	case '!':
		return Error(text), nil
	case '=': // It begins with three letters and a colon, which say how to show the rest.
		return string(text[min(length, len("txt:")):]), nil
	default:
		return string(text), nil
	}
}

// elements decodes so many replies.
func (d *decoder) elements(n, depth int) ([]any, error) {
	if n < 0 || n > len(d.rest)/len("_\r\n") { // No reply is shorter.
		return nil, ErrMalformed
	}
	elements := make([]any, 0, n)
	for range n {
		element, err := d.next(depth + 1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}
