// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tcpproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

const (
	// timeout bounds every wait. It only matters to a test that fails.
	timeout = 30 * time.Second
	// quietPeriod is for how long nothing must arrive.
	quietPeriod = 100 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echoProxy is a proxy with an echo server behind it.
type echoProxy struct {
	*WithT
	t     *testing.T
	proxy *Proxy
}

func newEchoProxy(t *testing.T) *echoProxy {
	t.Helper()
	s := &echoProxy{WithT: NewWithT(t), t: t}
	s.proxy = New(t, s.serveEchos())
	return s
}

// serveEchos starts a server that sends back what it gets, and returns its address.
func (s *echoProxy) serveEchos() string {
	s.t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(s)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	s.t.Cleanup(func() {
		// The proxy is closed before, and with it all connections.
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// dial makes a connection and sees that it is well.
func (s *echoProxy) dial() net.Conn {
	s.t.Helper()
	conn := s.dialOnly()
	s.send(conn, "well")
	s.expect(conn, "well")
	return conn
}

func (s *echoProxy) dialOnly() net.Conn {
	s.t.Helper()
	conn := must.Get(net.Dial("tcp", s.proxy.Addr()))(s)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *echoProxy) send(conn net.Conn, text string) {
	s.t.Helper()
	s.Expect(io.WriteString(conn, text)).Error().NotTo(HaveOccurred())
}

// expect reads text.
func (s *echoProxy) expect(conn net.Conn, text string) {
	s.t.Helper()
	s.Expect(conn.SetReadDeadline(time.Now().Add(timeout))).To(Succeed())
	got := make([]byte, len(text))
	s.Expect(io.ReadFull(conn, got)).Error().NotTo(HaveOccurred())
	s.Expect(string(got)).To(Equal(text))
}

// expectSilence sees that nothing arrives, not even an end.
func (s *echoProxy) expectSilence(conn net.Conn) {
	s.t.Helper()
	s.Expect(conn.SetReadDeadline(time.Now().Add(quietPeriod))).To(Succeed())
	s.Expect(conn.Read(make([]byte, 1))).Error().To(MatchError(os.ErrDeadlineExceeded))
}

// expectEnd reads until the connection ends, by this error.
func (s *echoProxy) expectEnd(conn net.Conn, end error) {
	s.t.Helper()
	s.Expect(conn.SetReadDeadline(time.Now().Add(timeout))).To(Succeed())
	_, err := conn.Read(make([]byte, 1))
	s.Expect(errors.Is(err, end)).To(BeTrue(), "%v", err)
}

func TestBytesPassBothWays(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	conn := s.dial()
	sent := bytes.Repeat([]byte("0123456789"), 1<<20)
	go func() { _, _ = conn.Write(sent) }()
	got := make([]byte, len(sent))
	s.Expect(io.ReadFull(conn, got)).Error().NotTo(HaveOccurred())
	s.Expect(bytes.Equal(got, sent)).To(BeTrue())
	s.Expect(s.proxy.Dials()).To(Equal(1))
	s.Expect(s.proxy.Open()).To(Equal(1))
	s.Expect(conn.Close()).To(Succeed())
	s.Eventually(s.proxy.Open).WithTimeout(timeout).Should(BeZero())
}

func TestHeldBytesGoOn(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]Direction{"to server": ToServer, "to client": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEchoProxy(t)
			before := s.dial()
			s.proxy.Hold(direction)
			during := s.dialOnly()
			for _, conn := range []net.Conn{before, during} {
				s.send(conn, "held")
				s.expectSilence(conn)
			}
			s.Expect(s.proxy.Pass()).To(Succeed())
			s.expect(before, "held")
			s.expect(during, "held")
		})
	}
}

func TestSparedConnectionsGoOn(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	const source = "127.0.0.2"
	held := s.dial()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	spared := must.Get(dialer.DialContext(t.Context(), "tcp", s.proxy.Addr()))(s)
	s.proxy.Spare(source)
	s.proxy.Hold(Both)
	s.send(held, "a")
	s.send(spared, "b")
	s.expect(spared, "b")
	s.expectSilence(held)
	s.Expect(spared.Close()).To(Succeed())
}

func TestStrandedConnectionsStaySo(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]Direction{"to server": ToServer, "to client": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEchoProxy(t)
			stranded := s.dial()
			s.proxy.Strand(direction)
			s.send(stranded, "lost")
			s.expectSilence(stranded)
			s.Expect(s.proxy.Pass()).To(Succeed())
			s.expectSilence(stranded)
			s.dial()
		})
	}
}

func TestStreamStallsInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	conn := s.dial()
	s.proxy.StrandAfter(3)
	s.send(conn, "message")
	s.expect(conn, "mes")
	s.expectSilence(conn)
	s.dial()
}

func TestStreamIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	conn := s.dial()
	s.proxy.CutAfter(3)
	s.send(conn, "message")
	s.expect(conn, "mes")
	s.expectEnd(conn, io.EOF)
	s.dial()
}

func TestConnectionsAreEnded(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	conn := s.dial()
	s.proxy.Cut()
	s.expectEnd(conn, io.EOF)
	conn = s.dial()
	s.proxy.Reset()
	s.expectEnd(conn, syscall.ECONNRESET)
	s.dial()
}

func TestNewConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	before := s.dial()
	s.Expect(s.proxy.Refuse()).To(Succeed())
	s.Expect(net.Dial("tcp", s.proxy.Addr())).Error().To(MatchError(syscall.ECONNREFUSED))
	s.send(before, "well")
	s.expect(before, "well")
	s.Expect(s.proxy.Pass()).To(Succeed())
	s.dial()
}

func TestBytesAreDelayed(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	conn := s.dial()
	s.proxy.Delay(quietPeriod)
	begun := time.Now()
	s.send(conn, "slow")
	s.expect(conn, "slow")
	s.Expect(time.Since(begun)).To(BeNumerically(">=", 2*quietPeriod), "there and back")
}

func TestServerThatIsDownResets(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := New(t, "127.0.0.1:1")
	g.Expect(server.Refuse()).To(Succeed())
	proxy := New(t, server.Addr())
	g.Expect(dialAndRead(proxy.Addr())).To(MatchError(syscall.ECONNRESET))
	g.Expect(proxy.Dials()).To(Equal(1))
}

// dialAndRead returns how a connection ends to which nothing is said. A RST may come as soon as the dial.
func dialAndRead(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = io.Copy(io.Discard, conn)
	return err
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	s := newEchoProxy(t)
	held, stranded := s.dial(), s.dial()
	s.proxy.Strand(Both)
	s.proxy.Hold(Both)
	s.send(held, "held")
	s.send(stranded, "lost")
	s.Expect(s.proxy.Close()).To(Succeed())
	s.Expect(s.proxy.Close()).To(Succeed())
	s.Expect(s.proxy.Open()).To(BeZero())
	s.expectEnd(held, io.EOF)
}
