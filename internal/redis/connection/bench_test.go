// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"testing"
)

// BenchmarkDo measures the overhead of a call.
func BenchmarkDo(b *testing.B) {
	pool := NewPool(Options{})
	defer pool.close()
	b.ReportAllocs()
	for b.Loop() {
		if err := pool.Conn(somewhere, 0).Do(b.Context(), answer(nil)); err != nil {
			b.Fatal(err)
		}
	}
}
