// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/leadership"
)

// A leader begins no create that could outlast its lease. Creates for which this process is patient are ended together with it.
func TestCreatesAreAsLongAsTheLeaseLeavesRoomFor(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(createTimeout).To(Equal(leadership.LongestCreate))
}
