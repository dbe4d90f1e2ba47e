// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// maxHostLength is the maximum length of a DNS name.
const maxHostLength = 253

// Mode is how the servers of an endpoint work together.
type Mode uint8

// The modes.
const (
	// ModeStandalone is one server.
	ModeStandalone Mode = iota
	// ModeSentinel is one master at a time, whose address sentinels know.
	ModeSentinel
	// ModeCluster is several masters that share the keys.
	ModeCluster
)

func (m Mode) String() string { return [...]string{"Standalone", "Sentinel", "Cluster"}[m] }

// Role is what a server must be, as far as the operator knows.
type Role uint8

// The roles.
const (
	// RoleAny is any server that answers reads.
	RoleAny Role = iota
	// RoleMaster is the master that sentinels have named.
	RoleMaster
	// RoleNode is a node of a Cluster, which may be a master or a replica.
	RoleNode
	// RoleSentinel is a sentinel.
	RoleSentinel
)

func (r Role) String() string { return [...]string{"server", "master", "node", "sentinel"}[r] }

// Endpoint identifies a Redis server, or a deployment of several servers, and how to authenticate to it and verify it.
// Endpoints are comparable, and equal endpoints share their connections. An Endpoint contains only the names of
// Secrets, not their values; Secrets are namespaced, so an endpoint with Secrets is never shared between namespaces.
//
// A deployment has another mode than ModeStandalone, and no connections of its own. [Endpoint.ServerAt] and
// [Endpoint.SentinelAt] return its servers.
type Endpoint struct {
	// Address is host:port, as [ParseEndpoint] returns it. The network is always TCP. A deployment has the addresses to
	// ask first, separated by commas.
	Address string
	// Mode says whether this is a deployment, and Role what a server must be.
	Mode Mode
	Role Role
	// deployment is the deployment that a server belongs to; none for a server that the user names. As a handle it takes
	// little memory.
	deployment unique.Handle[Endpoint]
	// Sentinels says how to ask the sentinels. It has a value only with ModeSentinel. As a handle it takes little memory
	// in all other endpoints.
	Sentinels unique.Handle[Sentinels]
	// Username is the ACL user, and Password names its password. If both are empty, the operator does not authenticate.
	Username string
	Password SecretKey
	// TLS has the TLS settings. The zero value means no TLS.
	TLS TLS
	// Namespace is the namespace of the Secrets. It is empty if the endpoint names no Secret.
	Namespace string
}

// Sentinels says which master to ask the sentinels for, how to authenticate to them, and how to verify them.
type Sentinels struct {
	// MasterName is the name that the sentinels have for the master.
	MasterName string
	Username   string
	Password   SecretKey
	TLS        TLS
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

// ServerAt returns the server with keys at an address: the master that sentinels have named, or a node of a Cluster.
// The address has the form that [ParseEndpoint] returns.
func (e Endpoint) ServerAt(address string) Endpoint {
	role := RoleNode
	if e.Mode == ModeSentinel {
		role = RoleMaster
	}
	return Endpoint{
		Address: address, deployment: unique.Make(e), Role: role,
		Username: e.Username, Password: e.Password, TLS: e.TLS, Namespace: e.Namespace,
	}
}

// SentinelAt returns the sentinel at an address.
func (e Endpoint) SentinelAt(address string) Endpoint {
	with := e.Sentinels.Value()
	return Endpoint{
		Address: address, deployment: unique.Make(e), Role: RoleSentinel,
		Username: with.Username, Password: with.Password, TLS: with.TLS, Namespace: e.Namespace,
	}
}

// IsMember reports whether the endpoint is a server of a deployment.
func (e Endpoint) IsMember() bool { return e.deployment != unique.Handle[Endpoint]{} }

// Named returns what the user names: the deployment that a server belongs to, and otherwise the endpoint itself.
func (e Endpoint) Named() Endpoint {
	if e.IsMember() {
		return e.deployment.Value()
	}
	return e
}

// Addresses returns the addresses of a deployment to ask first.
func (e Endpoint) Addresses() []string { return strings.Split(e.Address, ",") }

// String returns the address and every other field that is set, for example "redis:6379 user=reader namespace=team
// password=redis/password tls". Different endpoints have different strings. It contains no secret values, so it can be
// logged.
func (e Endpoint) String() string {
	if e == (Endpoint{Address: e.Address}) {
		return e.Address
	}
	if e.IsMember() { // The rest follows from the deployment.
		return e.Address + " (" + e.Role.String() + " of " + e.Named().String() + ")"
	}
	var text strings.Builder
	text.WriteString(e.Address)
	add := func(name, value string) {
		if value != "" {
			text.WriteString(" " + name + "=" + value)
		}
	}
	secure := func(with TLS) {
		if with.Enabled {
			text.WriteString(" tls")
		}
		if with.SkipVerify {
			text.WriteString(" unverified")
		}
		add("name", with.ServerName)
		add("ca", with.CA.String())
		add("certificate", with.Certificate.String())
		add("key", with.PrivateKey.String())
	}
	if e.Mode != ModeStandalone {
		add("mode", e.Mode.String())
	}
	add("user", e.Username)
	add("namespace", e.Namespace)
	add("password", e.Password.String())
	secure(e.TLS)
	if e.Mode == ModeSentinel {
		with := e.Sentinels.Value()
		add("master", with.MasterName)
		text.WriteString(" sentinels:")
		add("user", with.Username)
		add("password", with.Password.String())
		secure(with.TLS)
	}
	return text.String()
}

// String returns "secret/key", and "" for the zero value.
func (k SecretKey) String() string {
	if k == (SecretKey{}) {
		return ""
	}
	return k.Name + "/" + k.Key
}

// NeedsSecrets reports whether the endpoint names a Secret, also one for the sentinels of a deployment.
func (e Endpoint) NeedsSecrets() bool {
	none := SecretKey{}
	if e.Mode == ModeSentinel {
		if with := e.Sentinels.Value(); with.Password != none || with.TLS.needsSecrets() {
			return true
		}
	}
	return e.Password != none || e.TLS.needsSecrets()
}

func (t TLS) needsSecrets() bool {
	none := SecretKey{}
	return t.CA != none || t.Certificate != none || t.PrivateKey != none
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

// ParseDeployment parses the addresses of a deployment, each of which is like that of [ParseEndpoint]. The order of the
// addresses, and repeated ones, make no difference.
func ParseDeployment(mode Mode, addresses []string) (Endpoint, error) {
	parsed := make([]string, 0, len(addresses))
	for _, address := range addresses {
		server, err := ParseEndpoint(address)
		if err != nil {
			return Endpoint{}, err
		}
		parsed = append(parsed, server.Address)
	}
	slices.Sort(parsed)
	return Endpoint{Mode: mode, Address: strings.Join(slices.Compact(parsed), ",")}, nil
}

func normalizeHost(host string, bracketed bool) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() == bracketed {
		if ip.Zone() != "" { // It could have any characters, and any length.
			return "", errors.New("the IPv6 address has a zone")
		}
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
