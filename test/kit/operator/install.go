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
	"miracle.dev/scaledjob-operator/test/kit/programs"
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

// render renders a bundle.
func render(ctx context.Context, bundle string) (string, error) {
	root, err := programs.Root()
	if err != nil {
		return "", err
	}
	return programs.Kustomize(ctx, filepath.Join(root, "config", bundle))
}

// crdFolder is the folder with the CustomResourceDefinitions.
func crdFolder(ctx context.Context) (string, error) {
	root, err := programs.Root()
	return filepath.Join(root, "config", "crd", "bases"), err
}

func withoutDeployments(manifests string) (io.Reader, error) {
	var kept bytes.Buffer
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
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
