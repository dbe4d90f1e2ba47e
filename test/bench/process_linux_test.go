// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestThisProcessHasMemoryAndUsesCPUTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(residentBytes(os.Getpid())).To(BeNumerically(">", 1<<20))
	_, err := cpuTime(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
}
