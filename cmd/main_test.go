// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

// Both belong to the whole process, so this test runs alone.
func TestBoundMemory(t *testing.T) {
	g := NewWithT(t)
	limit, percent := debug.SetMemoryLimit(512<<20), debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) })
	t.Setenv("GOGC", "100")
	boundMemory()
	g.Expect(debug.SetMemoryLimit(math.MaxInt64)).To(BeNumerically("~", 461<<20, 1<<20))
	g.Expect(debug.SetGCPercent(100)).To(Equal(100), "users have chosen")
	t.Setenv("GOGC", "")
	boundMemory()
	g.Expect(debug.SetMemoryLimit(-1)).To(Equal(int64(math.MaxInt64)), "no limit stays no limit")
	g.Expect(debug.SetGCPercent(percent)).NotTo(Equal(100), "the operator has chosen")
}

func TestGarbageFor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const mib = 1 << 20
	for live, percent := range map[uint64]int{0: mostPercent, mib: mostPercent, 8 * mib: 400, 64 * mib: 50, 1 << 40: 50} {
		g.Expect(garbageFor(live)).To(Equal(percent), "%d bytes", live)
	}
}

// The percentage follows the objects in use. It belongs to the whole process, so this test runs alone.
func TestGarbageFollowsTheObjectsInUse(t *testing.T) {
	g := NewWithT(t)
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	boundGarbage()
	percent := func() int {
		runtime.GC()
		is := debug.SetGCPercent(-1)
		debug.SetGCPercent(is)
		return is
	}
	g.Eventually(percent).Should(BeNumerically(">", garbagePercent))
	held := make([]byte, 2*leastGarbage)
	g.Eventually(percent).Should(Equal(garbagePercent))
	runtime.KeepAlive(held)
	g.Eventually(percent).Should(BeNumerically(">", garbagePercent))
}
