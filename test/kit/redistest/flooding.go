// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
)

// messagesAtOnce is how many notifications a [Flooding] server writes at a time.
const messagesAtOnce = 1000

// Flooding is a server that announces growth of each key that is subscribed to, as fast as its clients read. Close it.
type Flooding struct {
	*Listener

	sent atomic.Int64
}

// StartFlooding starts a server on 127.0.0.1.
func StartFlooding() (*Flooding, error) {
	f := &Flooding{}
	listener, err := Serve(f.serve)
	if err != nil {
		return nil, err
	}
	f.Listener = listener
	return f, nil
}

// Sent returns how many notifications have been sent.
func (f *Flooding) Sent() int { return int(f.sent.Load()) }

func (f *Flooding) serve(conn net.Conn) {
	for args := range Commands(conn) {
		if _, err := io.WriteString(conn, UsualAnswer(args)); err != nil {
			return
		}
		if args[0] == "subscribe" {
			f.flood(conn, args[1])
			return
		}
	}
}

// flood sends notifications about a channel until the connection ends.
func (f *Flooding) flood(conn net.Conn, channel string) {
	messages := strings.Repeat(Push("message", channel, "lpush"), messagesAtOnce)
	for {
		if _, err := io.WriteString(conn, messages); err != nil {
			return
		}
		f.sent.Add(messagesAtOnce)
	}
}
