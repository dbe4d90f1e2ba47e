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
	p := &echoProxy{WithT: NewWithT(t), t: t}
	p.proxy = New(t, p.serveEchos())
	return p
}

// serveEchos starts a server that sends back what it gets, and returns its address.
func (p *echoProxy) serveEchos() string {
	p.t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(p)
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
	p.t.Cleanup(func() {
		// The proxy is closed before, and with it all connections.
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// dial makes a connection and sees that it is well.
func (p *echoProxy) dial() net.Conn {
	p.t.Helper()
	conn := p.dialOnly()
	p.send(conn, "well")
	p.expect(conn, "well")
	return conn
}

func (p *echoProxy) dialOnly() net.Conn {
	p.t.Helper()
	conn := must.Get(net.Dial("tcp", p.proxy.Addr()))(p)
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (p *echoProxy) send(conn net.Conn, text string) {
	p.t.Helper()
	p.Expect(io.WriteString(conn, text)).Error().NotTo(HaveOccurred())
}

// expect reads text.
func (p *echoProxy) expect(conn net.Conn, text string) {
	p.t.Helper()
	p.Expect(conn.SetReadDeadline(time.Now().Add(timeout))).To(Succeed())
	got := make([]byte, len(text))
	p.Expect(io.ReadFull(conn, got)).Error().NotTo(HaveOccurred())
	p.Expect(string(got)).To(Equal(text))
}

// expectSilence sees that nothing arrives, not even an end.
func (p *echoProxy) expectSilence(conn net.Conn) {
	p.t.Helper()
	p.Expect(conn.SetReadDeadline(time.Now().Add(quietPeriod))).To(Succeed())
	p.Expect(conn.Read(make([]byte, 1))).Error().To(MatchError(os.ErrDeadlineExceeded))
}

// expectEnd reads until the connection ends, by this error.
func (p *echoProxy) expectEnd(conn net.Conn, end error) {
	p.t.Helper()
	p.Expect(conn.SetReadDeadline(time.Now().Add(timeout))).To(Succeed())
	_, err := conn.Read(make([]byte, 1))
	p.Expect(errors.Is(err, end)).To(BeTrue(), "%v", err)
}

func TestBytesPassBothWays(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	conn := p.dial()
	sent := bytes.Repeat([]byte("0123456789"), 1<<20)
	go func() { _, _ = conn.Write(sent) }()
	got := make([]byte, len(sent))
	p.Expect(io.ReadFull(conn, got)).Error().NotTo(HaveOccurred())
	p.Expect(bytes.Equal(got, sent)).To(BeTrue())
	p.Expect(p.proxy.Dials()).To(Equal(1))
	p.Expect(p.proxy.Open()).To(Equal(1))
	p.Expect(conn.Close()).To(Succeed())
	p.Eventually(p.proxy.Open).WithTimeout(timeout).Should(BeZero())
}

func TestHeldBytesGoOn(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]Direction{"to server": ToServer, "to client": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newEchoProxy(t)
			before := p.dial()
			p.proxy.Hold(direction)
			during := p.dialOnly()
			for _, conn := range []net.Conn{before, during} {
				p.send(conn, "held")
				p.expectSilence(conn)
			}
			p.Expect(p.proxy.Pass()).To(Succeed())
			p.expect(before, "held")
			p.expect(during, "held")
		})
	}
}

func TestSparedConnectionsGoOn(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	const source = "127.0.0.2"
	held := p.dial()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	spared := must.Get(dialer.DialContext(t.Context(), "tcp", p.proxy.Addr()))(p)
	p.proxy.Spare(source)
	p.proxy.Hold(Both)
	p.send(held, "a")
	p.send(spared, "b")
	p.expect(spared, "b")
	p.expectSilence(held)
	p.Expect(spared.Close()).To(Succeed())
}

func TestStrandedConnectionsStaySo(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]Direction{"to server": ToServer, "to client": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newEchoProxy(t)
			stranded := p.dial()
			p.proxy.Strand(direction)
			p.send(stranded, "lost")
			p.expectSilence(stranded)
			p.Expect(p.proxy.Pass()).To(Succeed())
			p.expectSilence(stranded)
			p.dial()
		})
	}
}

func TestStreamStallsInTheMiddle(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	conn := p.dial()
	p.proxy.StrandAfter(3)
	p.send(conn, "message")
	p.expect(conn, "mes")
	p.expectSilence(conn)
	p.dial()
}

func TestStreamIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	conn := p.dial()
	p.proxy.CutAfter(3)
	p.send(conn, "message")
	p.expect(conn, "mes")
	p.expectEnd(conn, io.EOF)
	p.dial()
}

func TestConnectionsAreEnded(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	conn := p.dial()
	p.proxy.Cut()
	p.expectEnd(conn, io.EOF)
	conn = p.dial()
	p.proxy.Reset()
	p.expectEnd(conn, syscall.ECONNRESET)
	p.dial()
}

func TestNewConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	before := p.dial()
	p.Expect(p.proxy.Refuse()).To(Succeed())
	p.Expect(net.Dial("tcp", p.proxy.Addr())).Error().To(MatchError(syscall.ECONNREFUSED))
	p.send(before, "well")
	p.expect(before, "well")
	p.Expect(p.proxy.Pass()).To(Succeed())
	p.dial()
}

func TestBytesAreDelayed(t *testing.T) {
	t.Parallel()
	p := newEchoProxy(t)
	conn := p.dial()
	p.proxy.Delay(quietPeriod)
	begun := time.Now()
	p.send(conn, "slow")
	p.expect(conn, "slow")
	p.Expect(time.Since(begun)).To(BeNumerically(">=", 2*quietPeriod), "there and back")
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
	p := newEchoProxy(t)
	held, stranded := p.dial(), p.dial()
	p.proxy.Strand(Both)
	p.proxy.Hold(Both)
	p.send(held, "held")
	p.send(stranded, "lost")
	p.Expect(p.proxy.Close()).To(Succeed())
	p.Expect(p.proxy.Close()).To(Succeed())
	p.Expect(p.proxy.Open()).To(BeZero())
	p.expectEnd(held, io.EOF)
}
