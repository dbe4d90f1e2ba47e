// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/operator/binary"
)

const (
	// Namespace is where Install puts the operator's objects.
	Namespace = "scaledjob-operator-system"
	// ServiceAccount is the operator's ServiceAccount in that namespace.
	ServiceAccount = "scaledjob-operator-manager"
)

// bundles are the kustomizations that together are the operator, in the order to apply them in.
var bundles = []string{"crd", "default"}

// Install applies the bundles, other than the Deployment: the operator runs as
// a process of its own instead.
func Install(ctx context.Context, control *cluster.Cluster) error {
	for _, bundle := range bundles {
		if err := install(ctx, control, bundle); err != nil {
			return fmt.Errorf("installing config/%s: %w", bundle, err)
		}
	}
	return nil
}

func install(ctx context.Context, control *cluster.Cluster, bundle string) error {
	rendered, err := render(ctx, bundle)
	if err != nil {
		return err
	}
	manifests, err := withoutDeployments(rendered)
	if err != nil {
		return err
	}
	return control.Apply(ctx, manifests)
}

// render runs the kustomize that hack/tools pins.
func render(ctx context.Context, bundle string) ([]byte, error) {
	dir, err := sourceFolder(ctx)
	if err != nil {
		return nil, err
	}
	return gobuild.Command{}.Output(ctx, "tool", "-modfile="+filepath.Join(dir, "hack", "tools", "go.mod"),
		"kustomize", "build", filepath.Join(dir, "config", bundle))
}

// sourceFolder is the root of the source of this module.
func sourceFolder(ctx context.Context) (string, error) {
	root, err := gobuild.Command{}.Output(ctx, "list", "-m", "-f={{.Dir}}", binary.Module)
	return strings.TrimSpace(string(root)), err
}

// crdFolder is the folder of the generated CRD.
func crdFolder(ctx context.Context) (string, error) {
	dir, err := sourceFolder(ctx)
	return filepath.Join(dir, "config", "crd", "bases"), err
}

func withoutDeployments(manifests []byte) (io.Reader, error) {
	var kept bytes.Buffer
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return &kept, nil
		}
		if err != nil {
			return nil, err
		}
		var object metav1.TypeMeta
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, err
		}
		if object.Kind != "Deployment" {
			kept.WriteString("---\n")
			kept.Write(document)
		}
	}
}
