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
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatalf("reading the certificate of an authority: %v", err)
	}
	return &Authority{certificate: certificate, key: key, encoded: encode("CERTIFICATE", der)}
}

// Certificate is that of the authority, in PEM.
func (a *Authority) Certificate() []byte { return a.encoded }

// Server makes the certificate of a server with these names, which may be IP addresses.
func (a *Authority) Server(tb testing.TB, names ...string) Pair {
	tb.Helper()
	return a.issue(tb, serverTemplate(tb, names))
}

// Peer is Server for a server that is also a client of others, as the nodes of a Redis Cluster are.
func (a *Authority) Peer(tb testing.TB, names ...string) Pair {
	tb.Helper()
	template := serverTemplate(tb, names)
	template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	return a.issue(tb, template)
}

// Expired is Server for a certificate that was valid until an hour ago.
func (a *Authority) Expired(tb testing.TB, names ...string) Pair {
	tb.Helper()
	template := serverTemplate(tb, names)
	template.NotAfter = time.Now().Add(-time.Hour)
	return a.issue(tb, template)
}

// Future is Server for a certificate that is valid from an hour from now.
func (a *Authority) Future(tb testing.TB, names ...string) Pair {
	tb.Helper()
	template := serverTemplate(tb, names)
	template.NotBefore = time.Now().Add(time.Hour)
	return a.issue(tb, template)
}

// Client makes the certificate of a client of this name.
func (a *Authority) Client(tb testing.TB, name string) Pair {
	tb.Helper()
	template := newTemplate(tb, name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(tb, template)
}

// ExpiredClient is Client for a certificate that was valid until an hour ago.
func (a *Authority) ExpiredClient(tb testing.TB, name string) Pair {
	tb.Helper()
	template := newTemplate(tb, name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template.NotAfter = time.Now().Add(-time.Hour)
	return a.issue(tb, template)
}

func (a *Authority) issue(tb testing.TB, template *x509.Certificate) Pair {
	tb.Helper()
	key := newKey(tb)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatalf("encoding a private key: %v", err)
	}
	return Pair{
		Certificate: encode("CERTIFICATE", sign(tb, template, a.certificate, key, a.key)),
		Key:         encode("PRIVATE KEY", der),
	}
}

func serverTemplate(tb testing.TB, names []string) *x509.Certificate {
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
	return template
}

func newTemplate(tb testing.TB, name string) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatalf("choosing a serial number: %v", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-lifetime),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("making a key: %v", err)
	}
	return key
}

func sign(tb testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		tb.Fatalf("signing a certificate: %v", err)
	}
	return der
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
