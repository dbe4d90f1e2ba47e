// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

// Error is an error reply.
type Error string

// Error returns the text of the reply.
func (e Error) Error() string { return string(e) }

// RedisError marks it as an error reply for the client library, so that it keeps the connection.
func (Error) RedisError() { /* a mark */ }

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
// Attributes are left out. The error is [ErrMalformed], or [ErrTooLarge] if the reply exceeds the limits of [Guard].
func Decode(raw []byte) (reply any, err error) {
	d := decoder{keep: true}
	for d.count == 0 && len(raw) > 0 {
		n, err := d.take(raw)
		if err != nil {
			return nil, err
		}
		raw = raw[n:]
	}
	if d.count == 0 || len(raw) > 0 {
		return nil, ErrMalformed
	}
	return d.reply, nil
}

// DecodeAll decodes replies like [Decode].
func DecodeAll(raw [][]byte) (replies []any, err error) {
	replies = make([]any, len(raw))
	for i, each := range raw {
		if replies[i], err = Decode(each); err != nil {
			return nil, err
		}
	}
	return replies, nil
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
