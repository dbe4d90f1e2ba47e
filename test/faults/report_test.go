// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestTable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var written strings.Builder
	g.Expect(WriteTable(&written, []Row{
		{Fault: "kill -9", Promise: "nothing is lost", Lost: 1, Over: 2, Recovery: 1234 * time.Millisecond},
	})).To(Succeed())
	g.Expect(written.String()).To(Equal("" +
		"| fault | promise | wake-ups lost | Jobs over | back after |\n" +
		"|---|---|---|---|---|\n" +
		"| kill -9 | nothing is lost | 1 | 2 | 1.23 s |\n"))
}

func TestFaultsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, fault := range Catalogue() {
		g.Expect(seen).NotTo(HaveKey(fault.Name))
		g.Expect(fault.Promise).NotTo(BeEmpty(), fault.Name)
		g.Expect(fault.Within).NotTo(BeZero(), fault.Name)
		seen[fault.Name] = true
	}
}
