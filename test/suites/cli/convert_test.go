// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// examples are manifests with all that the documentation of KEDA shows of its ScaledJobs and its Redis triggers.
const examples = "../../../internal/cli/convert/testdata/keda"

// What is converted in these tests is what KEDA accepts.
func TestTheExamplesAreObjectsOfKEDA(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := must.Get(filepath.Glob(filepath.Join(examples, "*.yaml")))(g)
	strict := client.WithFieldValidation(admin, "Strict")
	for _, file := range files {
		if filepath.Base(file) == "impossible.yaml" {
			continue // It has what KEDA does not accept either.
		}
		content := must.Get(os.ReadFile(file))(g)
		for _, object := range must.Get(manifests.Parse(string(content)))(g) {
			object.SetNamespace("default")
			g.Expect(strict.Create(t.Context(), object, client.DryRunAll)).To(Succeed(), "%s: %s", file, object.GetName())
		}
	}
}

// What was converted without a finding can be applied as it is.
func TestTheAPIServerAcceptsWhatWasConverted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := must.Get(filepath.Glob(filepath.Join(examples, "*.yaml")))(g)
	strict := client.WithFieldValidation(admin, "Strict")
	accepted := 0
	for _, file := range files {
		is := run(t, "convert", "-f", file)
		for _, object := range must.Get(manifests.Parse(is.out))(g) {
			if strings.Contains(is.errOut, object.GetName()+" (") {
				continue // Something is left to do first.
			}
			object.SetNamespace("default")
			g.Expect(strict.Create(t.Context(), object, client.DryRunAll)).To(Succeed(), "%s: %s", file, object.GetName())
			accepted++
		}
	}
	g.Expect(accepted).To(BeNumerically(">", 10))
}

// A cluster has the same as the files, so the result is the same too.
func TestConvertFromAClusterIsConvertOfItsManifests(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "cli")
	content := must.Get(os.ReadFile(filepath.Join(examples, "cluster.yaml")))(g)
	manifest := strings.ReplaceAll(string(content), "metadata: {name:", "metadata: {namespace: "+namespace+", name:")
	file := filepath.Join(t.TempDir(), "keda.yaml")
	g.Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
	g.Expect(control.Apply(t.Context(), strings.NewReader(manifest))).To(Succeed())

	fromFile, fromCluster := run(t, "convert", "-f", file), run(t, "convert", "--from-cluster", "-n", namespace)
	g.Expect(fromFile.code).To(BeZero(), fromFile.errOut)
	g.Expect(fromCluster.code).To(BeZero(), fromCluster.errOut)
	g.Expect(must.Get(manifests.Parse(fromCluster.out))(g)).To(Equal(must.Get(manifests.Parse(fromFile.out))(g)))

	is := run(t, "convert", "--from-cluster", "shards-list", "-n", namespace)
	g.Expect(must.Get(manifests.Parse(is.out))(g)).To(HaveLen(1))
	is = run(t, "convert", "--from-cluster", "absent", "-n", namespace)
	g.Expect(is.errOut).To(HavePrefix(`error: There is no ScaledJob "absent" of KEDA in namespace "` + namespace + `".`))
	is = run(t, "convert", "--from-cluster", "-n", control.NewNamespace(t, "cli"))
	g.Expect(is.errOut).To(Equal("error: There are no ScaledJobs of KEDA in the input.\n"))
}
