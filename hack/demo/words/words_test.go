// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package words_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/words"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		4321 * time.Microsecond:  "4.3 ms",
		999 * time.Millisecond:   "999.0 ms",
		time.Second:              "1.0 s",
		12345 * time.Millisecond: "12.3 s",
	} {
		NewWithT(t).Expect(words.Duration(d)).To(Equal(want))
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(words.Count(0, "Job")).To(Equal("0 Jobs"))
	g.Expect(words.Count(1, "Job")).To(Equal("1 Job"))
	g.Expect(words.Count(2, "Job")).To(Equal("2 Jobs"))
}

func TestWrap(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(words.Wrap("", 10)).To(Equal([]string{""}))
	g.Expect(words.Wrap("one two", 7)).To(Equal([]string{"one two"}))
	g.Expect(words.Wrap("one two", 6)).To(Equal([]string{"one", "two"}))
	g.Expect(words.Wrap("… two-and-three x", 8)).To(Equal([]string{"…", "two-and-three", "x"}))
}
