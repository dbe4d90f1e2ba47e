// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

// The limit belongs to the whole process, so this test runs alone.
func TestReserveMemory(t *testing.T) {
	g := NewWithT(t)
	before := debug.SetMemoryLimit(512 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	reserveMemory()
	g.Expect(debug.SetMemoryLimit(math.MaxInt64)).To(BeNumerically("~", 461<<20, 1<<20))
	reserveMemory()
	g.Expect(debug.SetMemoryLimit(-1)).To(Equal(int64(math.MaxInt64)), "no limit stays no limit")
}
