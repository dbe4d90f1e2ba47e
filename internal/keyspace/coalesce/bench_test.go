// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import "testing"

// BenchmarkWake measures the first mark of an ID until its wake is served, and that it begins and ends to be watched.
func BenchmarkWake(b *testing.B) {
	woken := 0
	t := NewThrottle(func(Wake) { woken++ }, func() { /* not counted */ })
	id := ID{Name: "a"}
	b.ReportAllocs()
	for b.Loop() {
		t.Add(id)
		t.Request(id, Growth)
		t.Serve(id)
		t.Remove(id)
	}
	if woken != b.N {
		b.Fatal("a wake is missing")
	}
}
