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

// maxHostLength is the longest name DNS can hold.
const maxHostLength = 253

// Endpoint says which Redis server to talk to, who to be there, and how to know it. Endpoints are
// comparable: equal endpoints share their connections. It holds no secrets, only their names; what
// needs one is its namespace's alone.
type Endpoint struct {
	// Address is host:port, as [ParseEndpoint] returns it. It is always dialed over TCP.
	Address string
	// Username is the ACL user to sign in as, and Password its password. Without either nobody
	// signs in.
	Username string
	Password SecretKey
	// TLS says how to know the server. The zero value is for connections without TLS.
	TLS TLS
	// Namespace is that of the Secrets. It is empty if there are none.
	Namespace string
}

// TLS says how to know a server, and how to be known by it.
type TLS struct {
	// Enabled says to use TLS at all.
	Enabled bool
	// ServerName is the name to find in the certificate of the server, and SkipVerify says to look
	// for none. Empty is the host of the address.
	ServerName string
	SkipVerify bool
	// CA is of the certificates that may vouch for the server, instead of those of the system, and
	// Certificate and PrivateKey are the operator's own. Each may be missing.
	CA, Certificate, PrivateKey SecretKey
}

// SecretKey names a value of a Secret. The zero value names none.
type SecretKey struct{ Name, Key string }

// String returns the address and, where there is more than that, what tells the endpoint from
// others: "redis:6379 user=reader namespace=team password=redis/password tls". It is safe to log.
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

// String returns the names of the Secret and of the key, and nothing for the zero value.
func (k SecretKey) String() string {
	if k == (SecretKey{}) {
		return ""
	}
	return k.Name + "/" + k.Key
}

// NeedsSecrets reports whether the endpoint needs any value of a Secret.
func (e Endpoint) NeedsSecrets() bool {
	none := SecretKey{}
	return e.Password != none || e.TLS.CA != none || e.TLS.Certificate != none || e.TLS.PrivateKey != none
}

// ParseEndpoint reads "host:port", where host is a name, an IPv4 address or an IPv6
// address in brackets, and port is a number from 1 to 65535. The result is normalized,
// so that two spellings of one address share a connection.
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
