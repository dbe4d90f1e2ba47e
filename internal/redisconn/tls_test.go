// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"crypto/tls"
	"net"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/certificates"
)

// A server may end the handshake and neither read nor say anything from then on.
func TestAServerThatReadsNothingAfterTheHandshakeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own := certificates.NewAuthority(t).Server(t, "redis.example")
	pair, err := tls.X509KeyPair(own.Certificate, own.Key)
	g.Expect(err).NotTo(HaveOccurred())
	near, far := net.Pipe() // It buffers nothing: who writes waits for who reads.
	go func() {
		_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true}).HandshakeContext(t.Context())
	}()
	conn, err := secure(t.Context(), near, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It is about what comes after.
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = near.Close() })
	g.Expect(conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))).To(Succeed())

	failed := make(chan error, 1)
	go func() {
		_, err := conn.Write([]byte("PING\r\n"))
		failed <- err
	}()
	g.Eventually(failed, 30*time.Second).Should(Receive(MatchError(os.ErrDeadlineExceeded)))
}
