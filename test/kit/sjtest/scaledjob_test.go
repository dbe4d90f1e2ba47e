// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestDueIsWhatWasPushedUpToTheLimit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := ScaledJob{Object: &scaledjobv1.ScaledJob{Spec: scaledjobv1.ScaledJobSpec{Threshold: 10, MaxReplicas: new(int32(3))}}}
	for _, c := range []struct{ more, due int }{{0, 0}, {1, 1}, {9, 1}, {1, 2}, {10, 3}, {10, 3}} {
		s.CountPushed(c.more)
		g.Expect(s.Due()).To(Equal(c.due), "after %d messages", s.Pushed())
	}
}
