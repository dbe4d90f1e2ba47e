// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestSupported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for version, supported := range map[string]bool{
		"v1.37.2": true, "v1.34.0": true, "1.34": true, "1.34+": true, "v1.34.4-gke.100": true, "v1.34.1+k3s1": true,
		"v1.34.0-alpha.1": true, "v1.100.0": true, "v2.0.0": true, "v1.34.1-eks-113cf36": true,
		"v1.33.9": false, "v1.33.9-gke.100": false, "v1.4.0": false, "v1.3.3": false, "v0.99.0": false,
	} {
		is, err := Supported(version)
		g.Expect(err).NotTo(HaveOccurred(), version)
		g.Expect(is).To(Equal(supported), version)
	}
	for _, version := range []string{"", "v", "latest", "v1", "one.two", "v1.x"} {
		_, err := Supported(version)
		g.Expect(err).To(MatchError(ContainSubstring("can't be compared")), version)
	}
}
