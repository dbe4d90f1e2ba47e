// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

var units = []Unit{Seconds, Milliseconds, Nanoseconds, BullMQ}

func TestLastDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 1_234_567)
	for unit, want := range map[Unit]string{
		"": "1700000000.001234567", Seconds: "1700000000.001234567", Milliseconds: "1700000000001",
		Nanoseconds: "1700000000001234567", BullMQ: "6963200000008191",
	} {
		NewWithT(t).Expect(lastDue(now, unit)).To(Equal(want))
	}
}

func TestDueTimeOfWhatIsNoTime(t *testing.T) {
	t.Parallel()
	for _, unit := range units {
		for _, score := range []float64{
			math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, 1 << 63, -1 << 63, 1 << 64, 0, -1, -math.SmallestNonzeroFloat64,
		} {
			NewWithT(t).Expect(dueTime(score, unit).IsZero()).To(BeTrue(), "%v %s", score, unit)
		}
	}
	NewWithT(t).Expect(dueTime(math.SmallestNonzeroFloat64, Seconds)).To(BeTemporally("==", time.Unix(0, 1)))
	NewWithT(t).Expect(dueTime(lastSecond, Seconds).IsZero()).To(BeTrue())
	NewWithT(t).Expect(dueTime(lastSecond-1, Seconds).UTC().Year()).To(Equal(9999))
}

// FuzzScores checks that a score is due at its due time, and that every due time can be stored in a status.
func FuzzScores(f *testing.F) {
	for _, score := range []float64{0, 1, 1.5, 1_700_000_000.3, 1_700_000_000_123, 1.7e18, 6963200002052096, math.Inf(1), math.NaN(), 1 << 63} {
		for i := range units {
			f.Add(score, uint(i))
		}
	}
	f.Fuzz(func(t *testing.T, score float64, which uint) {
		unit := units[which%uint(len(units))]
		at := dueTime(score, unit)
		if at.IsZero() {
			return
		}
		g := NewWithT(t)
		g.Expect(at.Unix()).To(And(BeNumerically(">=", 0), BeNumerically("<=", lastSecond)))
		due := must.Get(strconv.ParseFloat(lastDue(at, unit), 64))(g)
		g.Expect(due).To(BeNumerically(">=", score))
	})
}
