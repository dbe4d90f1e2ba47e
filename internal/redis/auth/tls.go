// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"strings"
)

const (
	// maxRSABits bounds the keys of certificates in Secrets, as the library bounds those that
	// servers show.
	maxRSABits = 8192
	// maxPrivateKeyBytes bounds a private key in PEM before anything is done with it. The largest
	// has half of that.
	maxPrivateKeyBytes = 16 << 10
)

// newTLSConfig returns nil for an endpoint without TLS. The error is an [*failure.Error].
func newTLSConfig(e Endpoint, found values) (*tls.Config, error) {
	if !e.TLS.Enabled {
		return nil, nil //nolint:nilnil // Nil is what stands for no TLS, here as in the libraries.
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

// checkKeys returns an error if a certificate has a key that takes too long to work with. Nobody can
// give that up once it has begun.
func checkKeys(named SecretKey, certificates string) error {
	for block, rest := pem.Decode([]byte(certificates)); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // It is not used.
		}
		if key, ok := certificate.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return invalid(named, "contains a certificate with an RSA key of more than 8192 bits. Use a smaller key.")
		}
	}
	return nil
}

// serverName is the name to find in the certificate of the server.
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
