// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/leadership"
)

// A leader starts no create that could outlast its Lease. Creates with the long timeout end together with the process.
func TestCreatesAreAsLongAsTheLeaseLeavesRoomFor(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(createTimeout).To(Equal(leadership.LongestCreate))
}
