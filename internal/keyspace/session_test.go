// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/wakeup"
	"miracle.dev/scaledjob-operator/test/redistest"
)

func TestASessionThatIsNeverConfirmedBacksOff(t *testing.T) {
	t.Parallel()
	server := serveScript(t, func(args []string) string {
		if args[0] == "subscribe" {
			return closeConnection
		}
		return ""
	})
	h := newHarness(t, server.address)
	begun := time.Now()
	h.Ensure("emails", h.endpoint, "emails")
	h.Eventually(server.dials.Load).WithTimeout(timeout).Should(BeNumerically(">=", 5))
	h.Expect(time.Since(begun)).To(BeNumerically(">=", 4*250*time.Millisecond))
}

func TestARefusalThatIsNotForGood(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"BUSY Redis is busy", "LOADING Redis is loading", "ERR anything"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := serveScript(t, func(args []string) string {
				if args[0] == "subscribe" && asked.Add(1) <= 2 {
					return "-" + refusal + "\r\n"
				}
				return ""
			})
			h := newHarness(t, server.address, func(w *Watcher[string]) { w.timing.refusedRetry = time.Millisecond })
			h.ensure("emails", "other")
			h.Expect(server.subscribed.Load()).To(BeEquivalentTo(1), "the session lives")
		})
	}
}

func TestASessionEndsWhenTheServerMisbehaves(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no answer among many messages":   strings.Repeat(push("message", "c", "lpush"), 10),
		"a confirmation nobody asked for": push("subscribe", "other", 1),
		"a confirmation of something":     push("unsubscribe", channelPrefix+"emails", 0),
		"a pong nobody asked for":         "+PONG\r\n",
		"something else":                  ">2\r\n+invalidate\r\n_\r\n",
		"a number":                        ":1\r\n",
		"two errors":                      "-NOPERM a\r\n-NOPERM b\r\n",
		"a broken message":                ">1\r\n+message\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveScript(t, nil)
			var misbehaved atomic.Bool
			server.script = func(args []string) string {
				if args[0] == "subscribe" && !misbehaved.Swap(true) {
					return answer
				}
				return ""
			}
			h := newHarness(t, server.address, impatient,
				func(w *Watcher[string]) { w.timing.forbiddenRetry = time.Millisecond })
			h.ensure("emails")
			h.Expect(server.subscribed.Load()).To(BeNumerically(">=", 1))
			h.Expect(server.dials.Load()).To(BeNumerically(">=", 2), "the next session succeeded")
		})
	}
}

// A server that answers PING and nothing else keeps no session.
func TestASubscriptionThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	var answering atomic.Bool
	server := serveScript(t, nil)
	server.script = func(args []string) string {
		if args[0] == "subscribe" && !answering.Load() {
			return nothing
		}
		return ""
	}
	h := newHarness(t, server.address, impatient)
	h.Ensure("emails", h.endpoint, "emails")
	h.Eventually(server.dials.Load).WithTimeout(timeout).Should(BeNumerically(">=", 3))
	answering.Store(true)
	h.eventuallyWoken("emails", wakeup.Confirmed, 1)
}

func TestTransitionsAreLoggedAndNothingElse(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	var mu sync.Mutex
	lines := map[string]int{}
	log := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		for _, message := range []string{"Subscribed to", "Not subscribed to", "was asked for"} {
			if strings.Contains(line, message) {
				lines[message]++
				return
			}
		}
		lines[line]++
	}, funcr.Options{})
	h := newHarness(t, server.Addr(), func(w *Watcher[string]) { w.options.Log = log })
	h.ensure("emails", "other")
	for round := range 3 {
		for range 100 {
			do(t, server, "lpush", "emails", 1)
		}
		do(t, server, "client", "kill", "type", "pubsub")
		h.eventuallyWoken("other", wakeup.Confirmed, round+2)
	}
	h.Eventually(func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return map[string]int{"up": lines["Subscribed to"], "down": lines["Not subscribed to"], "kinds": len(lines)}
	}).WithTimeout(timeout).Should(Equal(map[string]int{"up": 4, "down": 3, "kinds": 3}))
}

// What a script may return besides an answer; "" is what Redis would answer.
const (
	nothing         = "nothing"
	closeConnection = "close"
)

// script answers a command, or says what to do instead.
type script func(args []string) string

// scripted is a server that follows a script.
type scripted struct {
	script     script
	address    string
	dials      atomic.Int32 // connections accepted
	subscribed atomic.Int32 // connections on which SUBSCRIBE was confirmed
}

// serveScript starts a server, which ends with the test.
func serveScript(t *testing.T, answers script) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s := &scripted{script: answers, address: listener.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.dials.Add(1)
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return s
}

func (s *scripted) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	confirmed := false
	for {
		args, err := readCommand(reader)
		if err != nil {
			return
		}
		answer := s.script(args)
		switch answer {
		case closeConnection:
			return
		case nothing:
			continue
		case "":
			answer = usual(args)
			if args[0] == "subscribe" && !confirmed {
				confirmed = true
				s.subscribed.Add(1)
			}
		}
		_, _ = io.WriteString(conn, answer)
	}
}

// usual is what Redis would answer.
func usual(args []string) string {
	switch args[0] {
	case "hello":
		return "%1\r\n+proto\r\n:3\r\n"
	case "ping":
		return "+PONG\r\n"
	case "llen":
		return ":0\r\n"
	case "config":
		return "-ERR unknown command\r\n"
	}
	var confirmations strings.Builder
	for i, channel := range args[1:] {
		confirmations.WriteString(push(args[0], channel, i+1))
	}
	return confirmations.String()
}

// push makes a message of two strings and one more element.
func push(kind, channel string, last any) string {
	message := fmt.Sprintf(">3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(kind), kind, len(channel), channel)
	if text, ok := last.(string); ok {
		return message + fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return message + fmt.Sprintf(":%d\r\n", last)
}

// readCommand reads an array of strings.
func readCommand(reader *bufio.Reader) ([]string, error) {
	count, err := readNumber(reader, "*")
	if err != nil {
		return nil, err
	}
	args := make([]string, count)
	for i := range args {
		length, err := readNumber(reader, "$")
		if err != nil {
			return nil, err
		}
		arg := make([]byte, length+2)
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
