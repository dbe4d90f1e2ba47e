// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates makes authorities and the certificates they vouch for, in memory, for tests of TLS.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// lifetime is how long before and after now certificates are valid.
const lifetime = 24 * time.Hour

// Pair is a certificate and its private key, both in PEM.
type Pair struct{ Certificate, Key []byte }

// Authority vouches for certificates. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	encoded     []byte
}

// NewAuthority makes an authority that nobody knows yet.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	template := newTemplate(tb, "authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key := newKey(tb)
	der := sign(tb, template, template, key, key)
	certificate := must.Get(x509.ParseCertificate(der))(gomega.NewWithT(tb))
	return &Authority{certificate: certificate, key: key, encoded: encode("CERTIFICATE", der)}
}

// Certificate is that of the authority, in PEM.
func (a *Authority) Certificate() []byte { return a.encoded }

// Server makes the certificate of a server with these names, which may be IP addresses.
func (a *Authority) Server(tb testing.TB, names ...string) Pair {
	tb.Helper()
	return a.server(tb, names, func(*x509.Certificate) { /* no change */ })
}

// Peer is Server for a server that is also a client of others, as the nodes of a Redis Cluster are.
func (a *Authority) Peer(tb testing.TB, names ...string) Pair {
	tb.Helper()
	return a.server(tb, names, func(of *x509.Certificate) { of.ExtKeyUsage = append(of.ExtKeyUsage, x509.ExtKeyUsageClientAuth) })
}

// Expired is Server for a certificate that was valid until an hour ago.
func (a *Authority) Expired(tb testing.TB, names ...string) Pair {
	tb.Helper()
	return a.server(tb, names, expire)
}

func expire(of *x509.Certificate) { of.NotAfter = time.Now().Add(-time.Hour) }

// Future is Server for a certificate that is valid from an hour from now.
func (a *Authority) Future(tb testing.TB, names ...string) Pair {
	tb.Helper()
	return a.server(tb, names, func(of *x509.Certificate) { of.NotBefore = time.Now().Add(time.Hour) })
}

// Client makes the certificate of a client of this name.
func (a *Authority) Client(tb testing.TB, name string) Pair {
	tb.Helper()
	return a.client(tb, name, func(*x509.Certificate) { /* no change */ })
}

// ExpiredClient is Client for a certificate that was valid until an hour ago.
func (a *Authority) ExpiredClient(tb testing.TB, name string) Pair {
	tb.Helper()
	return a.client(tb, name, expire)
}

func (a *Authority) server(tb testing.TB, names []string, change func(*x509.Certificate)) Pair {
	tb.Helper()
	template := newTemplate(tb, "server")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	change(template)
	return a.issue(tb, template)
}

func (a *Authority) client(tb testing.TB, name string, change func(*x509.Certificate)) Pair {
	tb.Helper()
	template := newTemplate(tb, name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	change(template)
	return a.issue(tb, template)
}

func (a *Authority) issue(tb testing.TB, template *x509.Certificate) Pair {
	tb.Helper()
	key := newKey(tb)
	return Pair{
		Certificate: encode("CERTIFICATE", sign(tb, template, a.certificate, key, a.key)),
		Key:         encode("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(key))(gomega.NewWithT(tb))),
	}
}

func newTemplate(tb testing.TB, name string) *x509.Certificate {
	tb.Helper()
	return &x509.Certificate{
		SerialNumber: must.Get(rand.Int(rand.Reader, big.NewInt(1<<62)))(gomega.NewWithT(tb)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-lifetime),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(gomega.NewWithT(tb))
}

func sign(tb testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	tb.Helper()
	return must.Get(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by))(gomega.NewWithT(tb))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
