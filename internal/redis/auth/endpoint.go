// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxHostLength is the maximum length of a DNS name.
const maxHostLength = 253

// Endpoint identifies a Redis server and how to authenticate to it and verify it. Endpoints are comparable, and equal
// endpoints share their connections. An Endpoint contains only the names of Secrets, not their values; Secrets are
// namespaced, so an endpoint with Secrets is never shared between namespaces.
type Endpoint struct {
	// Address is host:port, as [ParseEndpoint] returns it. The network is always TCP.
	Address string
	// Username is the ACL user, and Password names its password. If both are empty, the operator does not authenticate.
	Username string
	Password SecretKey
	// TLS has the TLS settings. The zero value means no TLS.
	TLS TLS
	// Namespace is the namespace of the Secrets. It is empty if the endpoint names no Secret.
	Namespace string
}

// TLS has the settings for verifying the server, and for the client certificate.
type TLS struct {
	// Enabled turns TLS on.
	Enabled bool
	// ServerName is the name that the server's certificate must contain; if it is empty, the host of the address.
	// SkipVerify turns the verification of the certificate off.
	ServerName string
	SkipVerify bool
	// CA names the CA certificates that the operator trusts instead of those of the system. Certificate and PrivateKey
	// name the client certificate and its key. Each is optional.
	CA, Certificate, PrivateKey SecretKey
}

// SecretKey names a key of a Secret. The zero value means none.
type SecretKey struct{ Name, Key string }

// String returns the address and every other field that is set, for example "redis:6379 user=reader namespace=team
// password=redis/password tls". Different endpoints have different strings. It contains no secret values, so it can be
// logged.
func (e Endpoint) String() string {
	if e == (Endpoint{Address: e.Address}) {
		return e.Address
	}
	var text strings.Builder
	text.WriteString(e.Address)
	add := func(name, value string) {
		if value != "" {
			text.WriteString(" " + name + "=" + value)
		}
	}
	add("user", e.Username)
	add("namespace", e.Namespace)
	add("password", e.Password.String())
	if e.TLS.Enabled {
		text.WriteString(" tls")
	}
	if e.TLS.SkipVerify {
		text.WriteString(" unverified")
	}
	add("name", e.TLS.ServerName)
	add("ca", e.TLS.CA.String())
	add("certificate", e.TLS.Certificate.String())
	add("key", e.TLS.PrivateKey.String())
	return text.String()
}

// String returns "secret/key", and "" for the zero value.
func (k SecretKey) String() string {
	if k == (SecretKey{}) {
		return ""
	}
	return k.Name + "/" + k.Key
}

// NeedsSecrets reports whether the endpoint names a Secret.
func (e Endpoint) NeedsSecrets() bool {
	none := SecretKey{}
	return e.Password != none || e.TLS.CA != none || e.TLS.Certificate != none || e.TLS.PrivateKey != none
}

// ParseEndpoint parses "host:port". The host is a name, an IPv4 address, or an IPv6 address in brackets; the port is a
// number from 1 to 65535. The address of the result is normalized, so two spellings of one address share their
// connections.
func ParseEndpoint(address string) (Endpoint, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Endpoint{}, errors.New("the address is not of the form host:port")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return Endpoint{}, errors.New("the port is not a number from 1 to 65535")
	}
	host, err = normalizeHost(host, strings.HasPrefix(address, "["))
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{Address: net.JoinHostPort(host, strconv.FormatUint(number, 10))}, nil
}

func normalizeHost(host string, bracketed bool) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() == bracketed {
		return ip.String(), nil
	}
	if bracketed {
		return "", errors.New("only an IPv6 address may stand in brackets")
	}
	if host == "" || len(host) > maxHostLength {
		return "", fmt.Errorf("the host name is not 1 to %d characters long", maxHostLength)
	}
	for _, c := range []byte(host) {
		if !isHostByte(c) {
			return "", errors.New("the host name has a character other than letters, digits, '-', '_' and '.'")
		}
	}
	return strings.ToLower(host), nil
}

func isHostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
