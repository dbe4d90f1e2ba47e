// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
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

// BenchmarkRejected measures what each reconcile of a deployment with Secrets asks, among the servers of others.
func BenchmarkRejected(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			pool, mine := poolOf(b, others)
			b.ReportAllocs()
			for b.Loop() {
				_ = pool.Rejected(mine)
			}
		})
	}
}
