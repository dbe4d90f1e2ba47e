// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Wrap("", 10)).To(Equal([]string{""}))
	g.Expect(Wrap("one two", 7)).To(Equal([]string{"one two"}))
	g.Expect(Wrap("one two", 6)).To(Equal([]string{"one", "two"}))
	g.Expect(Wrap("… two-and-three x", 8)).To(Equal([]string{"…", "two-and-three", "x"}))
}
