// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import "net/netip"

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
