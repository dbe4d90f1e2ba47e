// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestCPUTimeIsThatInUserModeAndInTheKernel(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(parseCPUTime([]byte("7 (a ) b) S 1 7 7 0 -1 4194560 100 0 3 0 150 75 9 9 20 0 5 0"))).To(BeEquivalentTo(2.25))
	_, err := parseCPUTime([]byte("7 (cut off) S 1"))
	g.Expect(err).To(HaveOccurred())
}

func TestResidentMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(parseResident("VmHWM:\t   90 kB\nVmRSS:\t   12 kB\nRssAnon:\t 8 kB\n")).To(BeEquivalentTo(12 * 1024))
	_, err := parseResident("Name:\tzombie\n")
	g.Expect(err).To(HaveOccurred())
}
