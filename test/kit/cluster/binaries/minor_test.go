// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestMinorVersionIsSelected(t *testing.T) {
	for name, test := range map[string]struct{ k8s, apiServer, etcd string }{
		"none is the default":         {"", `^v1\.37\.\d+$`, `^v3\.`},
		"an older one":                {"1.35", `^v1\.35\.\d+$`, `^v3\.`},
		"the others follow":           {"1.34", `^v1\.34\.\d+$`, `^v3\.`},
		"the default, by its version": {"1.37", `^v1\.37\.\d+$`, `^v3\.`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv(minorVariable, test.k8s)
			for _, program := range []Program{KubeAPIServer, ControllerManager, Kubectl} {
				g.Expect(located(program)).To(MatchRegexp(test.apiServer), string(program))
			}
			g.Expect(located(Etcd)).To(MatchRegexp(test.etcd))
		})
	}
}

func TestUnknownMinorVersionIsRefused(t *testing.T) {
	for _, version := range []string{"1.33", "v1.36", "1.36.3", "..", "latest"} {
		t.Run(version, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv(assetsVariable, "")
			t.Setenv(minorVariable, version)
			_, err := Path(t.Context(), nil, KubeAPIServer)
			g.Expect(err).To(MatchError(ContainSubstring(
				"K8S=" + version + " is not a version to run; choose one of 1.34, 1.35, 1.36, 1.37")))
		})
	}
}

func located(program Program) (string, error) {
	from, err := locate(program)
	return from.version, err
}
