// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

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

// Endpoint says which Redis server to talk to, and how. Endpoints are comparable:
// equal endpoints share their connections. It holds no secrets.
type Endpoint struct {
	// Address is host:port, as [ParseEndpoint] returns it. It is always dialed over TCP.
	Address string
}

// String returns the address. It is safe to log.
func (e Endpoint) String() string { return e.Address }

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
