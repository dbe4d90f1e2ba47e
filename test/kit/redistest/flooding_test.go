// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestAFloodingServerAnnouncesWithoutEndWhatIsSubscribedTo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := dialFlooding(t)
	t.Cleanup(server.Close)
	answers := bufio.NewReader(conn)
	expect := func(answer string) {
		t.Helper()
		read := make([]byte, len(answer))
		_, err := io.ReadFull(answers, read)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(read)).To(Equal(answer))
	}
	ask(t, conn, "ping")
	expect("+PONG\r\n")
	g.Expect(server.Sent()).To(BeZero())

	ask(t, conn, "subscribe", "emails")

	expect(redistest.Push("subscribe", "emails", 1))
	for range 5 {
		expect(strings.Repeat(redistest.Push("message", "emails", "lpush"), 1000))
	}
	g.Eventually(server.Sent).WithTimeout(timeout).Should(BeNumerically(">=", 5000))
}

func TestAListenerClosesWhatItServes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := dialFlooding(t)
	ask(t, conn, "subscribe", "emails")

	server.Close()

	_, err := io.Copy(io.Discard, conn)
	g.Expect(err).To(Or(Not(HaveOccurred()), MatchError(ContainSubstring("reset"))), "the end of the connection")
}

func dialFlooding(t *testing.T) (*redistest.Flooding, net.Conn) {
	t.Helper()
	server, err := redistest.StartFlooding()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	conn, err := net.Dial("tcp", server.Addr())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	return server, conn
}

// ask sends a command.
func ask(t *testing.T, conn net.Conn, args ...string) {
	t.Helper()
	command := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := io.WriteString(conn, command)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}
