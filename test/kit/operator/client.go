// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// StartCluster starts a cluster with the CRD and the other objects of the operator installed, and returns it with a
// client of the administrator. The garbage collector and quotas know ScaledJobs from the start.
func StartCluster(ctx context.Context, opts cluster.Options) (*cluster.Cluster, client.WithWatch, error) {
	crds, err := crdFolder(ctx)
	if err != nil {
		return nil, nil, err
	}
	opts.CRDs = append(opts.CRDs, crds)
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

// NewClient makes a client of an API server that knows ScaledJobs, besides the
// types of Kubernetes.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), scaledjobv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}
