// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// maxNesting is how deep a reply may be nested. No answer to what is asked here comes near it.
const maxNesting = 8

var (
	errMalformed = errors.New("malformed reply")
	errNegative  = errors.New("the server reports a negative number of messages")
)

// replyError is an error reply.
type replyError string

var _ redis.Error = replyError("")

// Error returns what the server says.
func (e replyError) Error() string { return string(e) }

// RedisError implements [redis.Error]: the connection that brought the reply is still good.
func (replyError) RedisError() {}

// decode reads one whole reply of RESP2 or RESP3. The result is nil, an int64, a float64, a
// string, a replyError, or a []any of these for everything that is made of several. A map is its
// keys and values in turn, as it is in RESP2. Attributes are left out.
func decode(raw []byte) (any, error) {
	d := decoder{rest: raw}
	reply, err := d.next(0)
	if err == nil && len(d.rest) > 0 {
		err = errMalformed
	}
	return reply, err
}

type decoder struct{ rest []byte }

// next reads a reply that is nested so deep.
func (d *decoder) next(depth int) (any, error) {
	line, rest, ok := bytes.Cut(d.rest, []byte("\r\n"))
	if !ok || len(line) == 0 || depth > maxNesting {
		return nil, errMalformed
	}
	d.rest = rest
	text := string(line[1:])
	switch line[0] {
	case '+', '#', '(':
		return text, nil
	case '-':
		return replyError(text), nil
	case '_':
		return nil, nil
	case ':':
		number, err := strconv.ParseInt(text, 10, 64)
		return number, malformed(err)
	case ',':
		number, err := strconv.ParseFloat(text, 64)
		return number, malformed(err)
	default:
		return d.announced(line[0], text, depth)
	}
}

// announced reads what has a length, or is made of a number of others.
func (d *decoder) announced(kind byte, announced string, depth int) (any, error) {
	n, err := strconv.Atoi(announced)
	switch {
	case err != nil || n < -1 || n > len(d.rest):
		return nil, errMalformed
	case n == -1:
		return nil, nil
	}
	switch kind {
	case '$', '=', '!':
		return d.text(kind, n)
	case '*', '~', '>':
		return d.elements(n, depth)
	case '%':
		return d.elements(2*n, depth)
	case '|':
		if _, err := d.elements(2*n, depth); err != nil {
			return nil, err
		}
		return d.next(depth + 1)
	default:
		return nil, errMalformed
	}
}

// text reads so many bytes and the end of the line.
func (d *decoder) text(kind byte, length int) (any, error) {
	text, ok := bytes.CutSuffix(d.rest[:min(len(d.rest), length+len("\r\n"))], []byte("\r\n"))
	if !ok || len(text) != length {
		return nil, errMalformed
	}
	d.rest = d.rest[length+len("\r\n"):]
	switch kind {
	case '!':
		return replyError(text), nil
	case '=': // It begins with three letters and a colon, which say how to show the rest.
		return string(text[min(length, len("txt:")):]), nil
	default:
		return string(text), nil
	}
}

// elements reads so many replies.
func (d *decoder) elements(n, depth int) ([]any, error) {
	elements := make([]any, 0, min(n, len(d.rest)))
	for range n {
		element, err := d.next(depth + 1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// malformed returns nil for nil, and else the one error for what makes no sense.
func malformed(err error) error {
	if err != nil {
		return errMalformed
	}
	return nil
}

// number returns a reply that is a number of messages.
func number(reply any) (int64, error) {
	switch n := reply.(type) {
	case int64:
		if n < 0 {
			return 0, errNegative
		}
		return n, nil
	case replyError:
		return 0, n
	default:
		return 0, errMalformed
	}
}

// list returns a reply that is made of several.
func list(reply any) ([]any, error) {
	switch l := reply.(type) {
	case []any:
		return l, nil
	case replyError:
		return nil, l
	default:
		return nil, errMalformed
	}
}
