// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import "net/netip"

// The prefixes of IPv6 addresses that contain an IPv4 address. A router, or the host itself, may send their packets to
// the IPv4 address.
var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
)

// carriedBy returns the IPv4 addresses that an IPv6 address contains, in any of the known formats.
func carriedBy(address netip.Addr) []netip.Addr {
	if !address.Is6() || address.IsUnspecified() || address.IsLoopback() {
		return nil
	}
	b := address.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case compatible.Contains(address), translated.Contains(address), nat64.Contains(address):
		return []netip.Addr{last}
	case localNAT64.Contains(address):
		return carriedByLocalNAT64(b)
	case sixToFour.Contains(address):
		return append([]netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}, carriedByISATAP(b)...)
	case teredo.Contains(address):
		server := netip.AddrFrom4([4]byte(b[4:8]))
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return []netip.Addr{server, client}
	}
	return carriedByISATAP(b)
}

// carriedByLocalNAT64 returns the bytes at each position that RFC 6052 allows for the IPv4 address, because the network
// chooses which one it uses. Byte 8 is never part of it. Positions that are not used usually contain zeros.
func carriedByLocalNAT64(b [16]byte) []netip.Addr {
	var carried []netip.Addr
	for _, place := range [][4]byte{
		{b[6], b[7], b[9], b[10]},
		{b[7], b[9], b[10], b[11]},
		{b[9], b[10], b[11], b[12]},
		{b[12], b[13], b[14], b[15]},
	} {
		if address := netip.AddrFrom4(place); !thisNetwork.Contains(address) {
			carried = append(carried, address)
		}
	}
	if len(carried) == 0 {
		return []netip.Addr{netip.IPv4Unspecified()}
	}
	return carried
}

// carriedByISATAP returns the IPv4 address in an interface identifier of RFC 5214, which may follow any prefix.
func carriedByISATAP(b [16]byte) []netip.Addr {
	// The two lowest bits of the first byte are the universal/local bit and the group bit. They may have any value.
	if b[8]&^3 != 0 || b[9] != 0 || b[10] != 0x5e || b[11] != 0xfe {
		return nil
	}
	return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
}
