// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// BenchmarkStatus measures the status after a reconcile that found nothing to do, and the comparison with the one before.
func BenchmarkStatus(b *testing.B) {
	sj := &scaledjobv1.ScaledJob{}
	seen := Reconciled{Depth: new(int64(3)), Desired: new(int32(3)), Queues: []scaledjobv1.QueueStatus{{Name: "emails", Depth: new(int64(3))}}}
	now := time.Now()
	before := Status(sj, &sj.Status, seen, now)
	b.ReportAllocs()
	for b.Loop() {
		if !SameStatus(before, Status(sj, before, seen, now)) {
			b.Fatal("the status has changed")
		}
	}
}
