// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// ControlPlane is a cluster with the objects of the operator installed, and the administrator's view of it.
type ControlPlane struct {
	Cluster *cluster.Cluster
	API     client.WithWatch
	AllJobs *witness.AllJobs
}

// NewControlPlane starts a control plane. The context bounds the start.
func NewControlPlane(ctx context.Context, opts cluster.Options) (*ControlPlane, error) {
	started, api, err := operator.StartCluster(ctx, opts)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(started.Config())
	if err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	jobs, err := witness.WatchAll(clients)
	if err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return &ControlPlane{Cluster: started, API: api, AllJobs: jobs}, nil
}
