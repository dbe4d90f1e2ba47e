// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import "testing"

// BenchmarkDecide measures the decision over sixteen queues.
func BenchmarkDecide(b *testing.B) {
	seen := Observation{Active: 7}
	for i := range int64(16) {
		seen.Queues = append(seen.Queues, Queue{Waiting: 3 * i, InProgress: i, Threshold: 5})
	}
	policy := Policy{MinReplicas: 1, MaxReplicas: 100}
	b.ReportAllocs()
	for b.Loop() {
		Decide(seen, policy)
	}
}
