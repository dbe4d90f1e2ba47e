// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
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
	g.Expect(debug.SetGCPercent(percent)).To(Equal(garbagePercent))
}
