// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bufio"
	"errors"
	"io"
	"strconv"
)

// Reader reads replies and push messages from a connection, one after the other. It is not safe for concurrent use.
type Reader struct {
	from *bufio.Reader
	// limits are those of [Guard]. They also tell where a reply ends.
	limits bounds
	raw    []byte
}

// mostKept is the largest buffer that is kept between two replies, in bytes. A server decides how large its replies are.
const mostKept = 64 << 10

// NewReader returns a Reader of a connection.
func NewReader(from io.Reader) *Reader { return &Reader{from: bufio.NewReaderSize(from, maxLineBytes)} }

// Next returns the next reply, decoded as by [Decode]. After an error, close the connection: part of a reply may be
// lost.
func (r *Reader) Next() (any, error) {
	defer r.release()
	for complete := r.limits.count; r.limits.count == complete; {
		part, err := r.part()
		if err != nil {
			return nil, err
		}
		if err := r.limits.check(part); err != nil {
			return nil, err
		}
		r.raw = append(r.raw, part...)
	}
	return Decode(r.raw)
}

// release empties the buffer for the next reply.
func (r *Reader) release() {
	if r.raw = r.raw[:0]; cap(r.raw) > mostKept {
		r.raw = nil
	}
}

// part returns the next line, or the next bytes of a string. They are valid until the next call.
func (r *Reader) part() ([]byte, error) {
	if r.limits.skip == 0 {
		line, err := r.from.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = ErrTooLarge
		}
		return line, err
	}
	if _, err := r.from.Peek(1); err != nil {
		return nil, err
	}
	part, err := r.from.Peek(min(r.limits.skip, r.from.Buffered()))
	if err != nil {
		return nil, err
	}
	_, err = r.from.Discard(len(part))
	return part, err
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
