// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bufio"
	"io"
	"strconv"
)

// mostKept is the largest buffer that is kept between two strings, in bytes. A server decides how long its strings are.
const mostKept = 64 << 10

// Reader reads replies and push messages from a connection, one after the other. It is not safe for concurrent use.
type Reader struct {
	from    *bufio.Reader
	replies decoder
}

// NewReader returns a Reader of a connection.
func NewReader(from io.Reader) *Reader {
	return &Reader{from: bufio.NewReaderSize(from, maxLineBytes), replies: decoder{keep: true}}
}

// Next returns the next reply, decoded as by [Decode]. After an error, close the connection: part of a reply may be
// lost.
func (r *Reader) Next() (any, error) {
	for complete := r.replies.count; r.replies.count == complete; {
		if _, err := r.from.Peek(1); err != nil {
			return nil, err
		}
		arrived, err := r.from.Peek(r.from.Buffered())
		if err != nil {
			return nil, err
		}
		n, err := r.replies.take(arrived)
		if err != nil {
			return nil, err
		}
		if _, err := r.from.Discard(n); err != nil {
			return nil, err
		}
	}
	reply := r.replies.reply
	r.replies.reply = nil
	return reply, nil
}

// AppendCommand appends a command to b, as a client sends it.
func AppendCommand(b []byte, args ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(arg)), 10), "\r\n"...)
		b = append(append(b, arg...), "\r\n"...)
	}
	return b
}
