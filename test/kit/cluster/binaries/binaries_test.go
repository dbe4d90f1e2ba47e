// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
)

func TestPathPrefersKubebuilderAssets(t *testing.T) {
	g := NewWithT(t)
	assets := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	etcd := filepath.Join(assets, "etcd")
	g.Expect(os.WriteFile(etcd, nil, 0o755)).To(Succeed())

	g.Expect(binaries.Path(t.Context(), nil, binaries.Etcd)).To(Equal(etcd))
}

func TestPathLooksFurtherForWhatAssetsLack(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())

	path, err := binaries.Path(t.Context(), nil, binaries.Etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(path).To(BeAnExistingFile())
}

func TestPathOfAnUnknownProgram(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := binaries.Path(t.Context(), nil, "kube-nothing")
	g.Expect(err).To(MatchError(ContainSubstring("kube-nothing")))
}

func TestPathNeedsTheSource(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Chdir(t.TempDir())
	_, err := binaries.Path(t.Context(), nil, binaries.Etcd)
	g.Expect(err).To(MatchError(ContainSubstring("working directory")))
}
