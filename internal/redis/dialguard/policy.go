// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
)

// Policy says which addresses may be connected to. The zero value refuses only what is always
// refused: link-local addresses, multicast, broadcast, addresses that name no host, and the
// metadata services of clouds. Private networks may be connected to, as Redis lives there.
//
// An IPv6 address that carries an IPv4 address has to be acceptable as both. That is seen by prefixes
// that have this meaning everywhere. What a network chose for its own NAT64 has to be denied.
type Policy struct {
	// Allow wins over Deny and RefuseLoopback, and not over what is always refused. Prefixes are as
	// [ParsePrefixes] returns them. Those of IPv4 do not speak of IPv6, nor the other way around.
	Allow []netip.Prefix
	// Deny are addresses not to connect to.
	Deny []netip.Prefix
	// RefuseLoopback refuses the host that the operator runs on.
	RefuseLoopback bool
}

// Control is for [net.Dialer.ControlContext]. The error is a [*DeniedError].
//
// The dialer calls it for each address it tries, after names were resolved and just before it
// connects to that very address. So it does not matter where the address came from, whether from a
// spec, from DNS, from what was found earlier or from a redirection, and a name can't change what
// it points to between the look and the connection.
func (p Policy) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &DeniedError{Why: "network " + network + " is not TCP"}
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &DeniedError{Why: address + " is no IP address with a port"}
	}
	// A prefix contains neither an address with a zone nor one of IPv4 that is written as IPv6.
	written := target.Addr().WithZone("").Unmap()
	if fault := p.faultOf(written); fault != "" {
		return &DeniedError{Why: written.String() + " is " + fault}
	}
	for _, carried := range carriedBy(written) {
		if fault := p.faultOf(carried); fault != "" {
			return &DeniedError{Why: written.String() + " carries " + carried.String() + ", which is " + fault}
		}
	}
	return nil
}

// faultOf says what speaks against an address, in words that follow "is". It is empty if nothing
// does.
func (p Policy) faultOf(address netip.Addr) string {
	if class := alwaysRefused(address); class != "" {
		return class
	}
	switch {
	case contain(p.Allow, address):
		return ""
	case contain(p.Deny, address):
		return "a denied address"
	case p.RefuseLoopback && address.IsLoopback():
		return "a loopback address"
	}
	return ""
}

func contain(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// DeniedError says that a connection was not made, since nobody may have one to that address.
type DeniedError struct {
	// Why names the rule and the address. It belongs in a log, not in a status: what a name
	// resolves to is nobody's business who may not ask.
	Why string
}

func (e *DeniedError) Error() string { return "refused to connect: " + e.Why }
