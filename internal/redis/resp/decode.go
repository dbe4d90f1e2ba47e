// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// ErrMalformed is returned for bytes that are not RESP, or not a complete reply.
var ErrMalformed = errors.New("malformed reply")

// Error is an error reply.
type Error string

// Error returns the text of the reply.
func (e Error) Error() string { return string(e) }

// RedisError marks it as an error reply for the client library, so that it keeps the connection.
func (Error) RedisError() {}

// Push is a message that is not the reply to a command, such as a message to a subscriber in RESP3.
type Push []any

// Decode decodes raw, which must be exactly one reply of RESP2 or RESP3. The result has one of these types:
//
//   - nil for a null,
//   - int64 for an integer, and float64 for a double,
//   - string for a simple, bulk or verbatim string; for a boolean or big number, its text,
//   - [Error] for an error,
//   - []any for an array or a set; for a map, its keys and values in turn, as in RESP2,
//   - [Push] for a push message.
//
// Attributes are left out. The memory it uses is proportional to the length of raw.
func Decode(raw []byte) (reply any, err error) {
	reply, rest, err := DecodeFirst(raw)
	if err == nil && len(rest) > 0 {
		return nil, ErrMalformed
	}
	return reply, err
}

// DecodeFirst decodes the first reply in raw, as [Decode] does, and also returns the bytes after it.
func DecodeFirst(raw []byte) (reply any, rest []byte, err error) {
	d := decoder{rest: raw}
	reply, err = d.next(0)
	if err != nil {
		return nil, nil, err
	}
	return reply, d.rest, nil
}

// Field returns a value of a reply that has names and values in turn, such as a map; nil if there is no such name.
func Field(reply any, name string) any {
	fields, _ := reply.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == any(name) {
			return fields[i+1]
		}
	}
	return nil
}

type decoder struct{ rest []byte }

// next decodes a reply that is nested in depth others.
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

// number replaces the error of a strconv function by [ErrMalformed].
func number[N any](n N, err error) (any, error) {
	if err != nil {
		return nil, ErrMalformed
	}
	return n, nil
}

// nullable are the types for which a length of -1 means null, as in RESP2.
const nullable = "$=!*~>%"

// announced decodes a reply that starts with its length or its number of elements.
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
		return d.attributed(n, depth)
	default:
		return nil, ErrMalformed
	}
}

// attributed skips so many attributes, which come before a reply, and decodes the reply.
func (d *decoder) attributed(attributes, depth int) (any, error) {
	if _, err := d.elements(2*attributes, depth); err != nil {
		return nil, err
	}
	return d.next(depth + 1)
}

// text decodes a string of this length and its line end.
func (d *decoder) text(kind byte, length int) (any, error) {
	text, ok := bytes.CutSuffix(d.rest[:min(len(d.rest), length+len("\r\n"))], []byte("\r\n"))
	if !ok || len(text) != length {
		return nil, ErrMalformed
	}
	d.rest = d.rest[length+len("\r\n"):]
	switch kind {
	case '!':
		return Error(text), nil
	case '=': // The first four bytes are its format, such as "txt:".
		return string(text[min(length, len("txt:")):]), nil
	default:
		return string(text), nil
	}
}

// elements decodes n replies.
func (d *decoder) elements(n, depth int) ([]any, error) {
	if n < 0 || n > len(d.rest)/len("_\r\n") { // The shortest reply has three bytes.
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
