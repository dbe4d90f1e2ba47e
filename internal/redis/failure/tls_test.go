// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

const serverName = "redis.example"

func TestClassifyHandshakesOfTwoThatDisagree(t *testing.T) {
	t.Parallel()
	now := time.Now()
	own := certificate(t, serverName)
	at := func(when time.Time) func() time.Time { return func() time.Time { return when } }
	for name, test := range map[string]*struct {
		server, client tls.Config
		words          string
	}{
		"unknown authority": {client: tls.Config{RootCAs: x509.NewCertPool()}, words: "the certificate of this authority"},
		"another name":      {client: tls.Config{ServerName: "other.example"}, words: "The common name does not count"},
		"no longer valid":   {client: tls.Config{Time: at(now.Add(48 * time.Hour))}, words: "expired"},
		"not valid yet":     {client: tls.Config{Time: at(now.Add(-48 * time.Hour))}, words: "not valid yet"},
		"not for servers": {
			server: tls.Config{Certificates: []tls.Certificate{certificate(t, serverName, x509.ExtKeyUsageClientAuth)}},
			words:  "is not valid.",
		},
		"wants a certificate":           {server: tls.Config{ClientAuth: tls.RequireAnyClientCert}, words: "requires a client certificate"},
		"wants a certificate (TLS 1.2)": {server: tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, words: "If it requires a client certificate"},
		"refuses a certificate": {
			server: tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()},
			client: tls.Config{Certificates: []tls.Certificate{own}},
			words:  "rejected the operator's certificate",
		},
		"too new": {
			server: tls.Config{MinVersion: tls.VersionTLS13}, client: tls.Config{MaxVersion: tls.VersionTLS12},
			words: "no common TLS version",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			if test.server.Certificates == nil {
				test.server.Certificates = []tls.Certificate{own}
			}
			if test.client.RootCAs == nil {
				test.client.RootCAs = x509.NewCertPool()
				test.client.RootCAs.AddCert(test.server.Certificates[0].Leaf)
			}
			if test.client.ServerName == "" {
				test.client.ServerName = serverName
			}
			err := talk(t, &test.client, func(conn net.Conn) {
				server := tls.Server(conn, &test.server)
				_ = server.HandshakeContext(t.Context())
				_, _ = io.Copy(io.Discard, server)
			})
			classified := failure.Classify(fmt.Errorf("dialing: %w", err))
			g.Expect(classified.Reason).To(Equal(failure.ReasonTLSFailed), err.Error())
			g.Expect(classified.Message).To(ContainSubstring(test.words), err.Error())
		})
	}
}

func TestClassifyAnswersToAHandshake(t *testing.T) {
	t.Parallel()
	alert := func(code byte) string { return string([]byte{21, 3, 3, 0, 2, 2, code}) }
	for name, test := range map[string]struct {
		answer string
		reason failure.Reason
		words  string
	}{
		"plain Redis":         {"-ERR unknown command\r\n", failure.ReasonTLSFailed, "answers without TLS"},
		"another protocol":    {"HTTP/1.1 400 Bad Request\r\n\r\n", failure.ReasonTLSFailed, "answers without TLS"},
		"handshake failure":   {alert(40), failure.ReasonTLSFailed, "no common TLS version"},
		"protocol version":    {alert(70), failure.ReasonTLSFailed, "no common TLS version"},
		"bad certificate":     {alert(42), failure.ReasonTLSFailed, "rejected the operator's certificate"},
		"unknown authority":   {alert(48), failure.ReasonTLSFailed, "rejected the operator's certificate"},
		"certificate missing": {alert(116), failure.ReasonTLSFailed, "requires a client certificate"},
		"unknown name":        {alert(112), failure.ReasonTLSFailed, "spec.redis.tls.serverName"},
		"internal error":      {alert(80), failure.ReasonTLSFailed, "with an alert"},
		"unknown alert":       {alert(200), failure.ReasonTLSFailed, "with an alert"},
		"nonsense":            {"\x16\x03\x03\x00\x04\x63\x00\x00\x00", failure.ReasonTLSFailed, "The TLS handshake failed"},
		"nothing":             {"", failure.ReasonUnreachable, "broke during the TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			err := talk(t, &tls.Config{ServerName: serverName}, func(conn net.Conn) {
				_, _ = conn.Read(make([]byte, 64<<10))
				_, _ = io.Copy(conn, strings.NewReader(test.answer))
			})
			classified := failure.Classify(fmt.Errorf("dialing: %w", err))
			g.Expect(classified.Reason).To(Equal(test.reason), err.Error())
			g.Expect(classified.Message).To(ContainSubstring(test.words), err.Error())
		})
	}
}

func TestClassifyEndsOfAHandshake(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason failure.Reason
		words  string
	}{
		"too slow": {context.DeadlineExceeded, failure.ReasonUnreachable, "handshake did not finish in time"},
		"stalled":  {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, failure.ReasonUnreachable, "handshake did not finish in time"},
		"given up": {context.Canceled, failure.ReasonUnreachable, "operator stopped"},
		"reset":    {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, failure.ReasonUnreachable, "broke during the TLS handshake"},
		"odd certificate": {
			&tls.CertificateVerificationError{Err: errors.New("x509: unhandled critical extension")}, failure.ReasonTLSFailed, "is not valid.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			classified := failure.Classify(&failure.HandshakeError{Err: test.err})
			g.Expect(classified.Reason).To(Equal(test.reason))
			g.Expect(classified.Message).To(ContainSubstring(test.words))
			g.Expect(classified).To(MatchError(test.err))
			g.Expect(classified.Error()).To(ContainSubstring("TLS handshake"))
		})
	}
}

// An alert after the handshake only means that the server ends the connection.
func TestClassifyAlertsAfterAHandshake(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	classified := failure.Classify(&net.OpError{Op: "remote error", Err: tls.AlertError(80)})
	g.Expect(classified.Reason).To(Equal(failure.ReasonUnreachable))
	g.Expect(classified.Message).To(ContainSubstring("broke"))
}

// talk does a handshake with a server and returns its error.
func talk(t *testing.T, config *tls.Config, serve func(net.Conn)) error {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close() })
	go func() {
		defer func() { _ = far.Close() }()
		serve(far)
	}()
	client := tls.Client(near, config)
	err := client.HandshakeContext(t.Context())
	if err == nil {
		_, err = client.Read(make([]byte, 1)) // With TLS 1.3 the server rejects a client certificate only now.
	}
	return &failure.HandshakeError{Err: err}
}

// certificate returns a self-signed certificate, valid from yesterday until tomorrow.
func certificate(t *testing.T, name string, usage ...x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	g := NewWithT(t)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(g)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{name},
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		ExtKeyUsage:  usage,
	}
	raw := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(g)
	leaf := must.Get(x509.ParseCertificate(raw))(g)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}
