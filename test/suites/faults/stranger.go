// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	outOfReach = scaledjobv1.ReasonUnreachable

	// planted is what strangers say wherever they can, and nobody else does.
	planted = "hunter2-of-the-stranger"
	// announcedBytes are announced at once, and then really come.
	announcedBytes = 512 << 20
	streamed       = 64 << 10
	// Small messages come so many at a time, and so often: enough to be a nuisance,
	// and not so many that reading them is all the machine does.
	messagesAtOnce  = 100
	betweenMessages = 10 * time.Millisecond
)

// Stranger is a server that is taken for Redis and is none, or means harm.
type Stranger struct {
	// Name says what it does.
	Name string
	// Reading and Hearing are the reasons that the operator gives for QueueConnected
	// and for NotificationsActive. Empty means that anything is right.
	Reading, Hearing string

	serve func(io.ReadWriter) error
}

// Strangers returns those that do not flood a namespace with messages.
func Strangers() []Stranger {
	return slices.Concat(babbling(), overflowing(), refusing(), lying())
}

// Flooding returns strangers that send messages without a question. They use up the share of their namespace, so that
// all queues of it are polled. Whether that or the missing confirmation is told depends on which comes first.
func Flooding() []Stranger {
	messages := flooding(message(">", planted))
	return []Stranger{
		{"messages without a question", "", "", messages},
		{"messages without end for a length", outOfReach, "", until("LLEN", messages)},
		{"messages without end for a confirmation", scaledjobv1.ReasonConnected, "", until("SUBSCRIBE", messages)},
	}
}

// babbling returns strangers that do not care what they are asked.
func babbling() []Stranger {
	return []Stranger{
		{"closes at once", outOfReach, "", func(io.ReadWriter) error { return io.EOF }},
		{"never answers", outOfReach, "", swallow},
		{"endless line", outOfReach, "", endless("+", "x")},
		{"HTTP", outOfReach, "", endless("", "HTTP/1.1 400 "+planted+"\r\n\r\n")},
		{"replies without a question", "", outOfReach, flooding("+" + planted + "\r\n:7\r\n$-1\r\n")},
	}
}

// overflowing returns strangers with replies that a client must not read to their
// end.
func overflowing() []Stranger {
	var all []Stranger
	for name, reply := range map[string]func(io.ReadWriter) error{
		"line without end":       endless("+", "x"),
		"huge string":            endless(fmt.Sprintf("$%d\r\n", announcedBytes), "x"),
		"huge array":             endless(fmt.Sprintf("*%d\r\n", announcedBytes), ":1\r\n"),
		"longest array":          endless("*9223372036854775807\r\n", ":1\r\n"),
		"arrays in arrays":       endless("", "*1\r\n"),
		"attributes without end": endless("", "|0\r\n"),
		"maps as keys of maps":   endless("", "%1\r\n%0\r\n+x\r\n"),
	} {
		all = append(all,
			Stranger{name + " for a length", outOfReach, "", until("LLEN", reply)},
			Stranger{name + " for a confirmation", scaledjobv1.ReasonConnected, outOfReach, until("SUBSCRIBE", reply)})
	}
	return all
}

// refusing returns strangers that answer everything with one error.
func refusing() []Stranger {
	var all []Stranger
	for code, reason := range map[string]string{
		"ERR": outOfReach, "MOVED 1": scaledjobv1.ReasonWrongMode, "ASK 1": scaledjobv1.ReasonWrongMode, "LOADING": outOfReach,
		"WRONGPASS": scaledjobv1.ReasonAuthFailed, "NOPERM": scaledjobv1.ReasonPermissionDenied,
		"WRONGTYPE": scaledjobv1.ReasonWrongType,
	} {
		reply := fmt.Sprintf("-%s %s:6379 %s\r\n", code, planted, planted)
		all = append(all, Stranger{"error " + code, reason, "", answering(func([]string) string { return reply })})
	}
	return all
}

// lying returns strangers that answer like an empty Redis, but for some questions.
func lying() []Stranger {
	lies := func(name, reading, hearing string, replies map[string]string) Stranger {
		return Stranger{name, reading, hearing, answering(func(command []string) string {
			if reply, lied := replies[command[0]]; lied {
				return reply
			}
			return emptyRedis(command)
		})}
	}
	length := func(name, reply string) Stranger {
		return lies("length is "+name, outOfReach, "", map[string]string{"LLEN": reply})
	}
	hears := func(name, reply string) Stranger {
		return lies(name, scaledjobv1.ReasonConnected, outOfReach, map[string]string{"SUBSCRIBE": reply})
	}
	return []Stranger{
		length("a word", bulk(planted)),
		length("an array", "*2\r\n"+bulk(planted)+":1\r\n"),
		length("null", "_\r\n"),
		length("negative", ":-5\r\n"),
		length("not a number", ":"+planted+"\r\n"),
		hears("confirms other channels", confirmation(planted)),
		hears("confirms what it ends", strings.Replace(confirmation(planted), "subscribe", "unsubscribe", 1)),
		hears("sends pongs for confirmations", "*2\r\n"+bulk("pong")+bulk(planted)),
		hears("sends numbers for confirmations", "*3\r\n:1\r\n:2\r\n:3\r\n"),
		hears("refuses subscriptions", "-ERR "+planted+"\r\n"),
		lies("setting is a lie", scaledjobv1.ReasonConnected, scaledjobv1.ReasonNotConfigured, map[string]string{
			"CONFIG": "*2\r\n" + bulk("notify-keyspace-events") + bulk(planted),
		}),
		lies("setting is another", scaledjobv1.ReasonConnected, scaledjobv1.ReasonUnverified, map[string]string{
			"CONFIG": "*2\r\n" + bulk(planted) + bulk("KEA"),
		}),
	}
}

// emptyRedis answers the commands that the operator uses.
func emptyRedis(command []string) string {
	switch command[0] {
	case "LLEN":
		return ":0\r\n"
	case "PING":
		return "+PONG\r\n"
	case "SUBSCRIBE":
		var reply strings.Builder
		for _, channel := range command[1:] {
			reply.WriteString(confirmation(channel))
		}
		return reply.String() + message("*", command[1]) + message("*", planted)
	default:
		return "-ERR unknown command " + planted + "\r\n"
	}
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func confirmation(channel string) string {
	return "*3\r\n" + bulk("subscribe") + bulk(channel) + ":1\r\n"
}

// message is a nonsense one of a channel, as an array (*) or as a push (>).
func message(kind, channel string) string {
	return kind + "3\r\n" + bulk("message") + bulk(channel) + bulk(planted)
}

// swallow reads for ever.
func swallow(conn io.ReadWriter) error {
	_, err := io.Copy(io.Discard, conn)
	return err
}

// endless has something follow a beginning for ever, without being asked.
func endless(beginning, rest string) func(io.ReadWriter) error {
	many := strings.Repeat(rest, streamed/len(rest))
	return func(conn io.ReadWriter) error {
		_, err := io.WriteString(conn, beginning)
		for err == nil {
			_, err = io.WriteString(conn, many)
		}
		return err
	}
}

// flooding has messages come without being asked, for ever.
func flooding(message string) func(io.ReadWriter) error {
	many := strings.Repeat(message, messagesAtOnce)
	return func(conn io.ReadWriter) error {
		for {
			if _, err := io.WriteString(conn, many); err != nil {
				return err
			}
			time.Sleep(betweenMessages)
		}
	}
}

// answering answers one command after the other.
func answering(answer func(command []string) string) func(io.ReadWriter) error {
	return func(conn io.ReadWriter) error {
		return converse(conn, func(command []string) (string, bool) { return answer(command), true })
	}
}

// until answers like an empty Redis, until it gets this command.
func until(verb string, then func(io.ReadWriter) error) func(io.ReadWriter) error {
	return func(conn io.ReadWriter) error {
		err := converse(conn, func(command []string) (string, bool) {
			if command[0] == verb {
				return "", false
			}
			return emptyRedis(command), true
		})
		if err != nil {
			return err
		}
		return then(conn)
	}
}

// converse answers commands until there is no answer to one.
func converse(conn io.ReadWriter, answer func(command []string) (reply string, ok bool)) error {
	commands := bufio.NewReader(conn)
	for {
		command, err := readCommand(commands)
		if err != nil {
			return err
		}
		reply, ok := answer(command)
		if !ok {
			return nil
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return err
		}
	}
}

// readCommand reads an array of strings, which is what clients send. The first of
// them is in capitals.
func readCommand(from *bufio.Reader) ([]string, error) {
	words, err := readLength(from, '*')
	if err != nil || words == 0 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	command := make([]string, words)
	for i := range command {
		length, err := readLength(from, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(from, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:length])
	}
	command[0] = strings.ToUpper(command[0])
	return command, nil
}

func readLength(from *bufio.Reader, kind byte) (int, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q begins no command", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// Listen has the stranger serve connections on a free port until it is closed.
func (s Stranger) Listen() (*Listening, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Listening{listener: listener, conns: map[net.Conn]struct{}{}}
	l.serving.Go(func() { l.accept(s.serve) })
	return l, nil
}

// Listening is a stranger at work.
type Listening struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// Addr returns the host:port it listens on.
func (l *Listening) Addr() string { return l.listener.Addr().String() }

// Close ends it with its connections. It may be called again.
func (l *Listening) Close() error {
	err := l.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.serving.Wait()
	return err
}

func (l *Listening) accept(serve func(io.ReadWriter) error) {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.conns[conn] = struct{}{}
		if l.closed {
			_ = conn.Close()
		}
		l.mu.Unlock()
		l.serving.Go(func() {
			_ = serve(conn)
			_ = conn.Close()
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.conns, conn)
		})
	}
}
