// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// watched is a guarded connection, and its server.
type watched struct {
	net.Conn
	server net.Conn
}

func watch(t *testing.T) *watched {
	t.Helper()
	client, server := net.Pipe()
	w := &watched{Conn: Guard(client), server: server}
	t.Cleanup(func() { _, _ = w.Close(), server.Close() })
	return w
}

// say lets the server send a text, and returns what the client reads.
func (w *watched) say(text string) (read string, err error) {
	go func() { _, _ = w.server.Write([]byte(text)) }()
	buffer := make([]byte, len(text))
	n, err := w.Read(buffer)
	return string(buffer[:n]), err
}

// hangUp lets the server close the connection, and returns the error of the client's next read.
func (w *watched) hangUp() error {
	_ = w.server.Close()
	_, err := w.Read(make([]byte, 1))
	return err
}

func TestAFinalErrorIsPartOfTheError(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := watch(t)
	_, _ = w.say("-ERR max number of clients reached\r\n")
	err := w.hangUp()
	final, ok := errors.AsType[*FinalError](err)
	g.Expect(ok).To(BeTrue())
	g.Expect(final.Reply).To(Equal("ERR max number of clients reached"))
	g.Expect(err).To(MatchError(ContainSubstring("EOF")))
	g.Expect(err).NotTo(MatchError(io.EOF), "the client library would treat the connection as good")
}

func TestAnErrorIsNotFinalOnceMoreWasSaid(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := watch(t)
	_, _ = w.say("-ERR no such command\r\n")
	_, _ = w.say("+OK\r\n")
	g.Expect(w.hangUp()).To(Equal(io.EOF))
}

// A connection is still open after a timeout.
func TestATimeoutIsNoFinalError(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := watch(t)
	_, _ = w.say("-ERR no such command\r\n")
	g.Expect(w.SetReadDeadline(time.Now())).To(Succeed())
	_, err := w.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(os.ErrDeadlineExceeded), "a [FinalError] has nothing to unwrap")
}

// A client may read again after an error.
func TestNothingIsReadAfterABadReply(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := watch(t)
	read, err := w.say("*65537\r\n")
	g.Expect(err).To(MatchError(ErrTooLarge))
	g.Expect(read).To(BeEmpty())
	g.Expect(w.Read(make([]byte, 1))).Error().To(MatchError(ErrTooLarge))
}

// The client library looks at the socket before it uses a connection again. It would read what it finds there, and wait
// for the rest of it.
func TestASocketWithUnreadBytesIsNotLookedAt(t *testing.T) {
	t.Parallel()
	for _, said := range []string{":1\r\n", "|1\r\n+a\r\n", ">2\r\n+inval"} {
		g := NewWithT(t)
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g)
		defer func() { _ = listener.Close() }()
		conn := must.Get(net.Dial("tcp", listener.Addr().String()))(g)
		defer func() { _ = conn.Close() }()
		server := must.Get(listener.Accept())(g)
		defer func() { _ = server.Close() }()

		socket, _ := Guard(conn).(syscall.Conn)
		g.Expect(socket.SyscallConn()).NotTo(BeNil())
		g.Expect(server.Write([]byte(said))).To(BeNumerically(">", 0))
		g.Eventually(func() error {
			_, err := socket.SyscallConn()
			return err
		}).WithTimeout(30 * time.Second).Should(HaveOccurred())
	}
}

// The client library checks the socket before it reuses a connection.
func TestASocketCanBeLookedAt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g)
	defer func() { _ = listener.Close() }()
	conn := must.Get(net.Dial("tcp", listener.Addr().String()))(g)
	defer func() { _ = conn.Close() }()
	socket, ok := Guard(conn).(syscall.Conn)
	g.Expect(ok).To(BeTrue())
	g.Expect(socket.SyscallConn()).NotTo(BeNil())
}
