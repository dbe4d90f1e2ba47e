// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestVersionOfTheServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(serverVersion("# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n")).To(Equal("Redis 7.0.15"))
	g.Expect(serverVersion("redis_version:7.2.4\r\nvalkey_version:8.1.3\r\n")).To(Equal("Valkey 8.1.3"))
	g.Expect(serverVersion("os:Linux\r\n")).To(Equal("Redis unknown"))
}

func TestCPUTimeIsThatInUserModeAndInTheKernel(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(parseCPUTime([]byte("7 (a ) b) S 1 7 7 0 -1 4194560 100 0 3 0 150 75 9 9 20 0 5 0"))).To(BeEquivalentTo(2.25))
	g.Expect(parseCPUTime([]byte("7 (cut off) S 1"))).Error().To(HaveOccurred())
}

func TestResidentMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(parseResident("VmHWM:\t   90 kB\nVmRSS:\t   12 kB\nRssAnon:\t 8 kB\n")).To(BeNumerically("~", 0.012288, 1e-9))
	g.Expect(parseResident("Name:\tzombie\n")).Error().To(HaveOccurred())
}
