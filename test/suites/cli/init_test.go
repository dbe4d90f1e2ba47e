// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/frameworks"
	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// What init prints can be applied as it is, and so can the keys that it prints as comments.
func TestTheAPIServerAcceptsWhatInitPrints(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := must.Get(frameworks.All())(g)
	strict := client.WithFieldValidation(admin, "Strict")
	for _, framework := range all {
		for _, queue := range []string{"emails", "{mail}: 'a' \"b\" #c"} {
			is := run(t, "init", "--framework", framework.ID, "--queue", queue, "-n", "default")
			g.Expect(is.code).To(BeZero(), is.errOut)
			withAll := strings.ReplaceAll(strings.ReplaceAll(is.out, "  # - name", "  - name"), "  #   ", "    ")
			for _, manifest := range []string{is.out, withAll} {
				objects := must.Get(manifests.Parse(manifest))(g)
				g.Expect(objects).To(HaveLen(1))
				g.Expect(strict.Create(t.Context(), objects[0], client.DryRunAll)).To(Succeed(), manifest)
			}
		}
	}
}
