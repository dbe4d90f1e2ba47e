// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "strings"

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// SlotOf returns the slot of a key: a checksum of the key, or of what stands between its first { and the next }, if
// there is something between them.
func SlotOf(key string) uint16 {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	return checksum(key) % slots
}

// checksum is the CRC-16 of Redis Cluster (XMODEM): polynomial 0x1021, beginning with 0.
func checksum(text string) (sum uint16) {
	const polynomial, top, bits = 0x1021, 0x8000, 8
	for i := range len(text) {
		sum ^= uint16(text[i]) << bits
		for range bits {
			if sum&top != 0 {
				sum = sum<<1 ^ polynomial
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}
