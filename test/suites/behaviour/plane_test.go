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

// plane is a control plane, ready for operators, and the administrator's view
// of it.
type plane struct {
	control *cluster.Cluster
	admin   client.WithWatch
	jobs    *witness.Census
}

func newPlane(ctx context.Context, opts cluster.Options) (*plane, error) {
	opts.CRDs = []string{crds}
	control, err := cluster.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	p := &plane{control: control}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return p, nil
}

func (p *plane) prepare(ctx context.Context) error {
	if err := operator.Install(ctx, p.control); err != nil {
		return err
	}
	var err error
	if p.admin, err = operator.NewClient(p.control.Config()); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(p.control.Config())
	if err != nil {
		return err
	}
	p.jobs, err = witness.NewCensus(clients)
	return err
}
