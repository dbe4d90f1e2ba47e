// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Script answers a command, which has at least one argument, in the words of RESP. It may be
// called from several goroutines.
type Script func(args []string) (answer string)

// What a [Script] may return besides an answer.
const (
	// Usual is to answer what Redis would answer if it were empty, to the few commands that the operator sends.
	Usual = ""
	// Nothing is to leave the command unanswered.
	Nothing = "nothing"
	// HangUp is to close the connection, after what comes before it in the answer.
	HangUp = "hang up"
	// Endless is to send what comes after it in the answer over and over.
	Endless = "endless"
)

// endlessBytes is how much a server that sends without end sends at a time, about.
const endlessBytes = 64 << 10

// Replies are those to some commands, always the same. Other commands are answered as usual.
type Replies map[string]string

// Script answers with the replies.
func (r Replies) Script(args []string) string { return r[args[0]] }

// Scripted is a server that answers by a script what no Redis would, or not when a test needs
// it. It listens on 127.0.0.1.
type Scripted struct {
	*Listener // nil if it has no port

	script Script
	dials  atomic.Int32
	sent   atomic.Int64 // of what is endless

	mu   sync.Mutex
	came map[string]int
}

// NewScripted starts a server that ends with the test.
func NewScripted(tb testing.TB, script Script) *Scripted {
	tb.Helper()
	s, err := StartScripted(script)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// StartScripted starts a server. Close it.
func StartScripted(script Script) (s *Scripted, err error) {
	s = NewPiped(script)
	s.Listener, err = Serve(s.serve)
	return s, err
}

// NewPiped returns a server without a port, whom only [Scripted.Dial] reaches. It works under testing/synctest.
func NewPiped(script Script) *Scripted { return &Scripted{script: script, came: map[string]int{}} }

// Dial connects to the server. The connection has no buffer: each side waits until the other one has read.
func (s *Scripted) Dial(context.Context, string, string) (net.Conn, error) { return Pipe(s.serve), nil }

// Pipe returns a connection whose other end is served, and closed when serve returns.
func Pipe(serve func(net.Conn)) net.Conn {
	client, server := net.Pipe()
	go func() {
		defer func() { _ = server.Close() }()
		serve(server)
	}()
	return client
}

// Dials is how many connections have been accepted.
func (s *Scripted) Dials() int { return int(s.dials.Load()) }

// Listen is [Serve] until the test ends, and returns host:port.
func Listen(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	listener, err := Serve(serve)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(listener.Close)
	return listener.Addr()
}

// Sent is how often what is [Endless] has been sent.
func (s *Scripted) Sent() int { return int(s.sent.Load()) }

// Count is how often a command has come, by its name.
func (s *Scripted) Count(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came[command]
}

func (s *Scripted) serve(conn net.Conn) {
	s.dials.Add(1)
	for args := range Commands(conn) {
		s.mu.Lock()
		s.came[args[0]]++
		s.mu.Unlock()
		answer, ends := strings.CutSuffix(s.script(args), HangUp)
		once, rest, endless := strings.Cut(answer, Endless)
		switch {
		case endless:
			_, err := io.WriteString(conn, once)
			times := 1 + endlessBytes/len(rest)
			for many := strings.Repeat(rest, times); err == nil; {
				if _, err = io.WriteString(conn, many); err == nil {
					s.sent.Add(int64(times))
				}
			}
			return
		case answer == Nothing:
		case answer == Usual && !ends:
			_, _ = io.WriteString(conn, UsualAnswer(args))
		case answer != "":
			_, _ = io.WriteString(conn, answer)
		}
		if ends {
			return
		}
	}
}

// UsualAnswer returns what Redis would answer if it were empty, to the few commands that the operator sends.
func UsualAnswer(args []string) string {
	switch args[0] {
	case "hello":
		return "%1\r\n+proto\r\n:3\r\n"
	case "select":
		return "+OK\r\n"
	case "ping":
		return "+PONG\r\n"
	case "llen":
		return ":0\r\n"
	case "config":
		return "-ERR unknown command\r\n"
	}
	var confirmations strings.Builder
	for i, channel := range args[1:] {
		confirmations.WriteString(Push(args[0], channel, i+1))
	}
	return confirmations.String()
}

// Push makes what a server sends to a subscriber: two strings, and a third one or a number.
func Push(kind, channel string, last any) string {
	message := fmt.Sprintf(">3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(kind), kind, len(channel), channel)
	if text, ok := last.(string); ok {
		return message + fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return message + fmt.Sprintf(":%d\r\n", last)
}

// Commands are those that come on a connection until it ends.
func Commands(conn net.Conn) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		reader := bufio.NewReader(conn)
		for args, err := ReadCommand(reader); err == nil && yield(args); args, err = ReadCommand(reader) {
		}
	}
}

var errNoCommand = errors.New("not a command")

// ReadCommand reads a command: an array of strings.
func ReadCommand(reader *bufio.Reader) ([]string, error) {
	count, err := readNumber(reader, "*")
	if err != nil || count < 1 {
		return nil, errors.Join(errNoCommand, err)
	}
	args := make([]string, count)
	for i := range args {
		length, err := readNumber(reader, "$")
		if err != nil {
			return nil, err
		}
		arg := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(reader, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:length])
	}
	return args, nil
}

func readNumber(reader *bufio.Reader, prefix string) (int, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, prefix)))
}
