// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"encoding/json"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestKubectlIsOfTheVersionOfTheServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	output := must.Get(control.Kubectl(t.Context(), "version", "--output=json"))(g)
	var versions struct{ ClientVersion, ServerVersion struct{ GitVersion string } }
	g.Expect(json.Unmarshal([]byte(output), &versions)).To(Succeed())
	g.Expect(versions.ClientVersion.GitVersion).To(MatchRegexp(`^v1\.\d+\.\d+$`))
	g.Expect(versions.ClientVersion).To(Equal(versions.ServerVersion))
}

// What the user has set up is neither read nor written.
func TestKubectlLeavesTheUserAlone(t *testing.T) {
	g := NewWithT(t)
	cache := t.TempDir()
	t.Setenv("KUBECACHEDIR", cache)
	t.Setenv("KUBECONFIG", "/dev/null")

	g.Expect(control.Kubectl(t.Context(), "get", "namespace", "default", "--output=name")).To(Equal("namespace/default\n"))
	g.Expect(os.ReadDir(cache)).To(BeEmpty())
}
