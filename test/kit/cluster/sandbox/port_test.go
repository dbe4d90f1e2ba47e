// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

func TestClaimPortRefusesAPortInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })

	g.Expect(claimPort(listener.Addr().(*net.TCPAddr).Port)).Error().To(MatchError(ContainSubstring("has a listener")))
}

func TestClaimPortRefusesAClaimedPort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	box, err := New()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = box.Close() })
	port, err := box.Port()
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(claimPort(port)).Error().To(HaveOccurred())
}
