// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// Tests that run at the same time start the same program.
func TestStopLeavesTheOperatorToOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var e Environment
	g.Expect(e.buildOperator(t.Context(), nil)).To(Succeed())
	path, err := programs.Operator(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.Stop(t.Context())).To(Succeed())
	g.Expect(path).To(BeARegularFile())
}
