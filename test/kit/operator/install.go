// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/manifests"
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

// Install applies the bundles, other than the Deployment: the operator runs as a process of its own instead.
func Install(ctx context.Context, control *cluster.Cluster) error {
	for _, bundle := range bundles {
		if err := install(ctx, control, bundle); err != nil {
			return fmt.Errorf("installing config/%s: %w", bundle, err)
		}
	}
	return nil
}

func install(ctx context.Context, control *cluster.Cluster, bundle string) error {
	root, err := programs.Root()
	if err != nil {
		return err
	}
	rendered, err := programs.Kustomize(ctx, filepath.Join(root, "config", bundle))
	if err != nil {
		return err
	}
	applied, err := withoutDeployments(rendered)
	if err != nil {
		return err
	}
	return control.Apply(ctx, applied)
}

func withoutDeployments(manifest string) (io.Reader, error) {
	objects, err := manifests.Parse(manifest)
	if err != nil {
		return nil, err
	}
	var kept bytes.Buffer
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			continue
		}
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&kept, "---\n%s", document)
	}
	return &kept, nil
}

// StartCluster starts a cluster with the CRD and the other objects of the operator installed, and returns it with a
// client of the administrator. The garbage collector and quotas know ScaledJobs from the start.
func StartCluster(ctx context.Context, opts cluster.Options) (*cluster.Cluster, client.WithWatch, error) {
	root, err := programs.Root()
	if err != nil {
		return nil, nil, err
	}
	opts.CRDs = append(opts.CRDs, filepath.Join(root, "config", "crd", "bases"))
	control, err := cluster.Start(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	api, err := NewClient(control.Config())
	if err := errors.Join(err, Install(ctx, control)); err != nil {
		return nil, nil, errors.Join(err, control.Stop())
	}
	return control, api, nil
}

// NewClient makes a client of an API server that knows ScaledJobs, besides the types of Kubernetes.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), scaledjobv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}
