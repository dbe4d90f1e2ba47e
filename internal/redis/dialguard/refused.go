// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import "net/netip"

// metadata are the services that tell whoever asks from a machine of a cloud what that machine may
// do, often with credentials, as far as they have no link-local address.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/64"),          // AWS, all services for the machine itself
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
}

// thisNetwork is 0.0.0.0 and others that can't be the address of another host.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// alwaysRefused is the class of an address that nobody has a Redis at, or "".
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
