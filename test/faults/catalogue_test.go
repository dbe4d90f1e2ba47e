// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestPromiseIsKept(t *testing.T) {
	t.Parallel()
	for _, fault := range Catalogue() {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			scene := newScene(t)
			g.Expect(scene.AwaitSubscriptions(t.Context())).To(Succeed())
			lasting := fault.Short
			if *long {
				lasting = fault.Long
			}
			row, err := scene.Play(t.Context(), fault, lasting)
			conclude(t, scene, row, err)
			if *long {
				g.Expect(row.Recovery).To(BeNumerically("<=", fault.Within))
			}
		})
	}
}

// conclude holds what came of a fault against what was promised, and notes it.
func conclude(t *testing.T, scene *Scene, row Row, err error) {
	t.Helper()
	g := NewWithT(t)
	if err == nil {
		row.Over, err = scene.Prove(t.Context())
	}
	table.add(row)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(row.Lost).To(BeZero(), "Jobs that did not come")
	g.Expect(row.Over).To(BeZero(), "Jobs that were not due")
}
