// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const crds = "../../../config/crd/bases"

// controlPlane is a control plane with the objects of the operator installed, and the administrator's view of it.
type controlPlane struct {
	cluster *cluster.Cluster
	admin   client.WithWatch
	allJobs *witness.Census
}

func newControlPlane(ctx context.Context, opts cluster.Options) (*controlPlane, error) {
	opts.CRDs = []string{crds}
	started, err := cluster.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	p := &controlPlane{cluster: started}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return p, nil
}

func (p *controlPlane) prepare(ctx context.Context) error {
	if err := operator.Install(ctx, p.cluster); err != nil {
		return err
	}
	var err error
	if p.admin, err = operator.NewClient(p.cluster.Config()); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(p.cluster.Config())
	if err != nil {
		return err
	}
	p.allJobs, err = witness.NewCensus(clients)
	return err
}
