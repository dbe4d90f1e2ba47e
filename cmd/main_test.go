// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The memory limit belongs to the whole process, so this test runs alone.
func TestBoundMemory(t *testing.T) {
	g := NewWithT(t)
	limit := debug.SetMemoryLimit(512 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	percent := 0
	collected := func() *garbage {
		return &garbage{live: func() uint64 { return 1 << 40 }, setPercent: func(is int) int { percent = is; return 0 }}
	}
	t.Setenv("GOGC", "100")
	boundMemory(collected())
	g.Expect(debug.SetMemoryLimit(math.MaxInt64)).To(BeNumerically("~", 461<<20, 1<<20))
	g.Expect(percent).To(BeZero(), "users have chosen")
	t.Setenv("GOGC", "")
	boundMemory(collected())
	g.Expect(debug.SetMemoryLimit(-1)).To(Equal(int64(math.MaxInt64)), "no limit stays no limit")
	g.Expect(percent).To(Equal(garbagePercent), "the operator has chosen")
}

func TestGarbageFor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const mib = 1 << 20
	for live, percent := range map[uint64]int{0: mostPercent, mib: mostPercent, 8 * mib: 400, 64 * mib: 50, 1 << 40: 50} {
		g.Expect(garbageFor(live)).To(Equal(percent), "%d bytes", live)
	}
}

func TestGarbageFollowsTheObjectsInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var live atomic.Uint64
	percents := make(chan int, 1)
	collected := &garbage{live: live.Load, setPercent: func(percent int) int { percents <- percent; return 0 }}
	collected.bound()
	g.Expect(percents).To(Receive(Equal(mostPercent)))
	follows := func(bytes uint64, percent int) {
		live.Store(bytes)
		var set int
		g.Eventually(func() <-chan int { runtime.GC(); return percents }).WithTimeout(30 * time.Second).Should(Receive(&set))
		g.Expect(set).To(Equal(percent))
		runtime.GC() // It changes nothing.
	}
	for range 3 {
		follows(2*leastGarbage, garbagePercent)
		follows(0, mostPercent)
	}
}

func TestLiveBytes(t *testing.T) {
	t.Parallel()
	held := make([]byte, leastGarbage)
	runtime.GC()
	NewWithT(t).Expect(liveBytes()).To(BeNumerically(">=", len(held)))
	runtime.KeepAlive(held)
}
