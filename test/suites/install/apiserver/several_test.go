// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
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
	chart, err := render.Chart(t.Context())
	if err != nil {
		return err
	}
	image, err := render.Image(t.Context())
	if err != nil {
		return err
	}
	_, err = render.Helm(t.Context(), release.Values, "install", release.Name, chart, "--namespace="+release.Namespace,
		"--kubeconfig="+control.Kubeconfig(), "--values="+image, "--values=-")
	return err
}

func uninstall(t *testing.T, release render.Release) error {
	t.Helper()
	_, err := render.Helm(t.Context(), "", "uninstall", release.Name, "--namespace="+release.Namespace, "--kubeconfig="+control.Kubeconfig())
	return err
}

// startAsInstalled starts the operator of a release, with its arguments and as its ServiceAccount.
func startAsInstalled(t *testing.T, release render.Release) {
	t.Helper()
	g := NewWithT(t)
	objects := must.Get(release.Objects(t.Context()))(g)
	access, err := control.ServiceAccountConfig(t.Context(), release.Namespace, release.Name+"-scaledjob-operator-manager")
	g.Expect(err).NotTo(HaveOccurred())
	operator.New(t, operator.Options{
		Cluster: control, Config: access,
		Args: append(withoutAddresses(arguments(g, objects)), "--leader-election-namespace="+release.Namespace),
	})
}
