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

	"miracle.dev/scaledjob-operator/test/kit/must"
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
		g.Expect(io.ReadFull(answers, read)).Error().NotTo(HaveOccurred())
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

func dialFlooding(t *testing.T) (*redistest.Scripted, net.Conn) {
	t.Helper()
	server := must.Get(redistest.StartFlooding())(NewWithT(t))
	conn := must.Get(net.Dial("tcp", server.Addr()))(NewWithT(t))
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
	NewWithT(t).Expect(io.WriteString(conn, command)).Error().NotTo(HaveOccurred())
}
