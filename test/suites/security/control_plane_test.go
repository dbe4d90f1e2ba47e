// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"os"
	"testing"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// controlPlane is a control plane without nodes, the operator in it, and the administrator's view of both.
type controlPlane struct {
	*scene.ControlPlane

	operator *operator.Operator
	// statuses are what the operator ever wrote into ScaledJobs.
	statuses *statusWatch
}

func newControlPlane(ctx context.Context) (*controlPlane, error) {
	started, err := scene.NewControlPlane(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	statuses, err := watchStatuses(ctx, started.API)
	if err != nil {
		return nil, errors.Join(err, started.Cluster.Stop())
	}
	return &controlPlane{ControlPlane: started, statuses: statuses}, nil
}

// ownControlPlane is a control plane for one test.
func ownControlPlane(t *testing.T, args ...string) *controlPlane {
	t.Helper()
	c, err := newControlPlane(t.Context())
	if err == nil {
		err = c.run(t.Context(), args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := c.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// run starts the operator of the control plane.
func (c *controlPlane) run(ctx context.Context, args ...string) (err error) {
	c.operator, err = operatorOf(ctx, c, args...)
	return err
}

// stop ends the control plane. It is an error if the operator does not end well, or has
// told a secret.
func (c *controlPlane) stop(ctx context.Context) error {
	var errs []error
	if c.operator != nil {
		told, err := c.evidence(ctx)
		errs = append(errs, err, c.operator.Stop(ctx))
		told["log"] = c.operator.Logs()
		errs = append(errs, planted.search(told))
	}
	return errors.Join(append(errs, c.Cluster.Stop())...)
}
