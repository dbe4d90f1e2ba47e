// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/moment"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// maxRSABits is the maximum size of RSA keys in Secrets. Package crypto/tls has the same maximum for certificates
	// of servers.
	maxRSABits = 8192
	// maxPrivateKeyBytes is the maximum size of a private key in PEM, checked before the key is parsed. The largest
	// useful key has half of it.
	maxPrivateKeyBytes = 16 << 10
)

// newTLSConfig returns the TLS configuration, and nil for an endpoint without TLS. The error is a [*failure.Error].
func newTLSConfig(e Endpoint, found values) (*tls.Config, error) {
	if !e.TLS.Enabled {
		return nil, nil //nolint:nilnil // Nil means no TLS, as in crypto/tls and go-redis.
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         serverName(e),
		InsecureSkipVerify: e.TLS.SkipVerify, //nolint:gosec // The administrator has to allow it with a flag.
	}
	if e.TLS.CA != (SecretKey{}) {
		roots, err := newRoots(e.TLS.CA, found.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	if e.TLS.Certificate != (SecretKey{}) {
		pair, err := newPair(e.TLS, found)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func newRoots(named SecretKey, ca string) (*x509.CertPool, error) {
	if err := checkKeys(named, ca); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, invalid(named, "contains no PEM certificate. Store the certificate of the authority that signed the server's certificate.")
	}
	return roots, nil
}

func newPair(named TLS, found values) (tls.Certificate, error) {
	if err := checkKeys(named.Certificate, found.certificate); err != nil {
		return tls.Certificate{}, err
	}
	if len(found.privateKey) > maxPrivateKeyBytes {
		return tls.Certificate{}, invalid(named.PrivateKey, "is larger than 16 KiB. Store the private key there.")
	}
	pair, err := tls.X509KeyPair([]byte(found.certificate), []byte(found.privateKey))
	if err != nil {
		return tls.Certificate{}, invalid(named.Certificate,
			"is not a PEM certificate that matches the private key. Store a matching pair; the private key must not be encrypted.")
	}
	return pair, nil
}

// firstExpiry returns when the first of these certificates in PEM expires; zero if there is none.
func firstExpiry(texts ...string) (first time.Time) {
	for _, text := range texts {
		for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err == nil {
				first = moment.First(first, certificate.NotAfter)
			}
		}
	}
	return first
}

// checkKeys rejects certificates with large RSA keys. Computing with them takes long, and a handshake cannot be
// cancelled while it does.
func checkKeys(named SecretKey, certificates string) error {
	for block, rest := pem.Decode([]byte(certificates)); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // A block that cannot be parsed is never used.
		}
		if key, ok := certificate.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return invalid(named, "contains a certificate with an RSA key of more than 8192 bits. Use a smaller key.")
		}
	}
	return nil
}

// serverName returns the name that the server's certificate must contain.
func serverName(e Endpoint) string {
	if e.TLS.ServerName != "" {
		return e.TLS.ServerName
	}
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil {
		return e.Address
	}
	return strings.TrimSuffix(host, ".")
}

// TLSConfig returns a copy of the TLS configuration; nil for connections without TLS.
func (c *Credentials) TLSConfig() *tls.Config { return c.tls.Clone() }

// Secure does the TLS handshake on a new connection, if the credentials are for TLS. If it fails, it closes the
// connection and returns a [*failure.HandshakeError].
func (c *Credentials) Secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if c.tls == nil {
		return conn, nil
	}
	secured := tls.Client(conn, c.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &failure.HandshakeError{Err: err}
	}
	return secured, nil
}
