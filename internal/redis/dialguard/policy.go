// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
)

// Policy decides which addresses the operator may connect to. The zero value denies only the addresses that are always
// denied: link-local, multicast, broadcast and unspecified addresses, and the metadata services of clouds. Private
// networks are allowed, because Redis usually runs there.
//
// For an IPv6 address that contains an IPv4 address, both must be allowed. The policy knows the prefixes that contain
// IPv4 addresses everywhere. A prefix that a network has chosen for its own NAT64 must be in Deny.
type Policy struct {
	// Allow takes precedence over Deny and RefuseLoopback, but not over the addresses that are always denied. Use
	// [ParsePrefixes]. IPv4 prefixes do not apply to IPv6 addresses, and IPv6 prefixes do not apply to IPv4 addresses.
	Allow []netip.Prefix
	// Deny has the addresses that are denied.
	Deny []netip.Prefix
	// RefuseLoopback denies loopback addresses, which are those of the operator's own Pod or host.
	RefuseLoopback bool
}

// Control is for [net.Dialer.ControlContext]. The error is a [*DeniedError].
//
// The dialer calls it for each address that it tries, after it has resolved the name and immediately before it connects
// to that address. So the policy applies wherever the address comes from, and a name cannot resolve to another address
// between the check and the connection.
func (p Policy) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &DeniedError{Why: "network " + network + " is not TCP"}
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &DeniedError{Why: address + " is no IP address with a port"}
	}
	// Prefixes contain neither addresses with a zone nor IPv4-mapped IPv6 addresses.
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

// faultOf returns why an address is denied, as a text to follow "is". It returns "" if the address is allowed.
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

// DeniedError is returned when the policy does not allow a connection.
type DeniedError struct {
	// Why has the rule and the address. Write it to the log and not to a status: the resolved address is not for
	// everybody who may read the status.
	Why string
}

func (e *DeniedError) Error() string { return "connection denied: " + e.Why }

// metadata has the addresses of cloud metadata services that are not link-local. These services give credentials to any
// program on the machine that asks.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/64"),          // AWS, all services for the machine itself
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
}

// thisNetwork has 0.0.0.0 and other addresses that no host can have.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// alwaysRefused returns which kind of address is always denied, or "" for other addresses.
func alwaysRefused(address netip.Addr) string {
	switch {
	case contain(metadata, address):
		return "the address of a cloud metadata service"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	case address.IsMulticast():
		return "a multicast address"
	case address == broadcast:
		return "the broadcast address"
	case address.IsUnspecified(), thisNetwork.Contains(address):
		return "an unspecified address"
	}
	return ""
}
