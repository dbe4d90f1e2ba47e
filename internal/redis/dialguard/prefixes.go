// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"fmt"
	"net/netip"
	"strings"
)

// mappedBits is the length of ::ffff:0:0/96, the prefix of IPv4 addresses that are written as IPv6.
const mappedBits = 96

// ParsePrefixes reads prefixes such as 10.0.0.0/8 or fd00::/8 that are separated by commas. A single
// address stands for itself alone. Prefixes of IPv4 that are written as IPv6 become those of IPv4.
// It is an error if bits behind the prefix are set, since then it is not clear what was meant.
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
		return netip.Prefix{}, fmt.Errorf("%q has bits set behind the prefix: is %s meant, or the one address %s?", text, masked, prefix.Addr())
	}
	if prefix.Addr().Is4In6() {
		// The address has bits set up to the 96th, so the prefix is that long at least.
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix, nil
}

// singleAddress is the prefix of one address. A zone is dropped by it, so none may be there.
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
