// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// longChain is how many certificates a hostile server shows: about 50 kB of them.
const longChain = 100

// Servers that misbehave harm nobody but those who name them.
func TestHostileServersOfTLS(t *testing.T) {
	t.Parallel()
	t.Run("silence after the handshake", func(t *testing.T) {
		t.Parallel()
		authority := certificates.NewAuthority(t)
		silence := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
		expectHarmless(t, authority, nil, silence)
	})
	t.Run("a long chain of certificates", func(t *testing.T) {
		t.Parallel()
		authority := certificates.NewAuthority(t)
		chain := make([]certificates.Pair, longChain)
		for i := range chain {
			chain[i] = authority.Server(t, "other.example")
		}
		expectHarmless(t, authority, chain, func(net.Conn) {})
	})
}

// expectHarmless has a ScaledJob name a server that speaks TLS and goes on as serve
// does, and sees that others are served all the same.
func expectHarmless(t *testing.T, authority *certificates.Authority, chain []certificates.Pair, serve func(net.Conn)) {
	t.Helper()
	s, other, shown := newScaledJob(t), newNeighbour(t), authority.Server(t, loopback)
	certificate := must.Get(tls.X509KeyPair(shown.Certificate, shown.Key))(s)
	for _, pair := range chain {
		link := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(s)
		certificate.Certificate = append(certificate.Certificate, link.Certificate...)
	}
	address := redistest.Listen(t, func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		if secure.HandshakeContext(t.Context()) == nil {
			serve(secure)
		}
	})
	s.putTrust(authority, authority.Client(t, "operator"))
	s.create(at(address), secured)
	s.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonUnreachable, "")
	s.Expect(s.verdict(scaledjobv1.ConditionQueueConnected).Abnormal).To(Equal(scaledjobv1.ConditionReconciling))
	other.expectNoticed()
	s.Expect(s.jobsEver()).To(BeZero())
}
