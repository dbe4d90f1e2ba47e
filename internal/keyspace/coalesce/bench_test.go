// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import "testing"

// BenchmarkWake measures the first mark of an ID until its wake is taken, and that it begins and ends to be watched.
func BenchmarkWake(b *testing.B) {
	c := NewCoalescer[ID](func() { /* not counted */ })
	id := numbered(1)
	b.ReportAllocs()
	for b.Loop() {
		c.Add(id)
		c.Mark(id, Growth)
		if _, woken := c.Take(); !woken {
			b.Fatal("no wake")
		}
		c.Remove(id)
	}
}
