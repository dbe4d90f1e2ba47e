// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const crds = "../../../config/crd/bases"

// plane is a control plane without nodes, the operator in it, and the
// administrator's view of both.
type plane struct {
	control  *cluster.Cluster
	admin    client.WithWatch
	jobs     *witness.Census
	operator *operator.Operator
	// statuses are what the operator ever wrote into ScaledJobs.
	statuses *statusWatch
}

func newPlane(ctx context.Context) (*plane, error) {
	control, err := cluster.Start(ctx, cluster.Options{CRDs: []string{crds}, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	p := &plane{control: control}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return p, nil
}

// ownPlane is a plane for one test.
func ownPlane(t *testing.T, args ...string) *plane {
	t.Helper()
	p, err := newPlane(t.Context())
	if err == nil {
		err = p.run(t.Context(), args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := p.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
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
	if p.jobs, err = witness.NewCensus(clients); err != nil {
		return err
	}
	p.statuses, err = watchStatuses(ctx, p.admin)
	return err
}

// run starts the operator of the plane.
func (p *plane) run(ctx context.Context, args ...string) (err error) {
	p.operator, err = operatorOf(ctx, p, args...)
	return err
}

// stop ends the plane. It is an error if the operator does not end well, or has
// told a secret.
func (p *plane) stop(ctx context.Context) error {
	var errs []error
	if p.operator != nil {
		told, err := p.evidence(ctx)
		errs = append(errs, err, p.operator.Stop(ctx))
		told["log"] = p.operator.Logs()
		errs = append(errs, planted.search(told))
	}
	return errors.Join(append(errs, p.control.Stop())...)
}
