// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package moment_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/moment"
)

func TestZeroTimesDoNotCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	never, early, late := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, times := range [][]time.Time{{early, late}, {late, early}, {never, late, early}, {early, never, late}, {late, early, never}} {
		g.Expect(moment.First(times...)).To(Equal(early), "%v", times)
		g.Expect(moment.Last(times...)).To(Equal(late), "%v", times)
	}
	g.Expect(moment.First()).To(BeZero())
	g.Expect(moment.First(never, never)).To(BeZero())
	g.Expect(moment.Last(never, never)).To(BeZero())
}
