// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		4321 * time.Microsecond:  "4.3 ms",
		999 * time.Millisecond:   "999.0 ms",
		time.Second:              "1.0 s",
		12345 * time.Millisecond: "12.3 s",
	} {
		NewWithT(t).Expect(Duration(d)).To(Equal(want))
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Count(0, "Job")).To(Equal("0 Jobs"))
	g.Expect(Count(1, "Job")).To(Equal("1 Job"))
	g.Expect(Count(2, "Job")).To(Equal("2 Jobs"))
}
