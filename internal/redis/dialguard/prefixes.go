// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"fmt"
	"net/netip"
	"strings"
)

// mappedBits is the length of ::ffff:0:0/96, the prefix of IPv4-mapped IPv6 addresses.
const mappedBits = 96

// ParsePrefixes parses a comma-separated list of prefixes such as 10.0.0.0/8 or fd00::/8. A single address is a prefix
// of its full length. IPv4-mapped IPv6 prefixes become IPv4 prefixes. Bits after the prefix must be zero, because
// otherwise it is not clear what is meant.
func ParsePrefixes(list string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		prefix, err := parsePrefix(text)
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if !strings.Contains(text, "/") {
		prefix, err = singleAddress(text)
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix such as 10.0.0.0/8", text)
	}
	if masked := prefix.Masked(); prefix != masked {
		return netip.Prefix{}, fmt.Errorf("%q has bits set after the prefix: write %s, or %s for the single address", text, masked, prefix.Addr())
	}
	if prefix.Addr().Is4In6() {
		// The bits of ffff are part of the prefix, so it has at least 96 bits.
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix, nil
}

// singleAddress returns the prefix for one address. It rejects zones, which a prefix cannot have.
func singleAddress(text string) (netip.Prefix, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if address.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%s has a zone", address)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}
