// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// Helm refuses objects of another release.
func TestTwoReleasesInOneNamespace(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]bool{"with ClusterRoles": false, "with Roles": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			home := control.NewNamespace(t, "home")
			for _, color := range []string{"blue", "green"} {
				release := render.Release{Name: color + "-" + home, Namespace: home, Values: `crds: {enabled: false}`}
				if watch {
					release.Values = fmt.Sprintf("{crds: {enabled: false}, watchNamespaces: [%s]}", control.NewNamespace(t, color))
				}
				g.Expect(install(t, release)).To(Succeed())
				startAsInstalled(t, release)
			}
			for _, color := range []string{"blue", "green"} {
				lease := color + "-" + home + "-scaledjob-operator.batch.miracle.dev"
				g.Eventually(operator.Leader).WithArguments(t.Context(), admin, home, lease).ShouldNot(BeEmpty())
			}
		})
	}
}

func TestReleasesOfOneNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	one, two := control.NewNamespace(t, "one"), control.NewNamespace(t, "two")
	named := func(home, values string) render.Release {
		return render.Release{Name: one, Namespace: home, Values: "{crds: {enabled: false}, " + values + "}"}
	}
	for _, home := range []string{one, two} {
		g.Expect(install(t, named(home, "watchNamespaces: ["+home+"]"))).To(Succeed(), "Roles are in namespaces")
	}
	g.Expect(uninstall(t, named(one, ""))).To(Succeed())
	g.Expect(uninstall(t, named(two, ""))).To(Succeed())
	g.Expect(install(t, named(one, ""))).To(Succeed())
	g.Expect(install(t, named(two, ""))).To(MatchError(ContainSubstring("invalid ownership metadata")), "ClusterRoles are not")
}

func install(t *testing.T, release render.Release) error {
	t.Helper()
	_, err := release.Helm(t.Context(), "install", "--kubeconfig="+control.Kubeconfig())
	return err
}

func uninstall(t *testing.T, release render.Release) error {
	t.Helper()
	_, err := render.Helm(t.Context(), "", "uninstall", release.Name, "--namespace="+release.Namespace, "--kubeconfig="+control.Kubeconfig())
	return err
}

// startAsInstalled starts the operator of a release, with its arguments and as its ServiceAccount. The addresses that
// it serves are those of the test.
func startAsInstalled(t *testing.T, release render.Release) *operator.Operator {
	t.Helper()
	g := NewWithT(t)
	args := must.Get(render.Arguments(must.Get(release.Objects(t.Context()))(g)))(g)
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.Contains(arg, "-bind-address=") })
	access, err := control.ServiceAccountConfig(t.Context(), release.Namespace, release.Name+"-scaledjob-operator-manager")
	g.Expect(err).NotTo(HaveOccurred())
	return operator.New(t, operator.Options{
		Cluster: control, Config: access, Args: append(args, "--leader-election-namespace="+release.Namespace),
	})
}
