// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultLease is the name of the Lease, unless a flag says otherwise.
const DefaultLease = "scaledjob-operator.batch.miracle.dev"

// Leader returns who holds a Lease, and nothing while nobody does.
func Leader(ctx context.Context, api client.Reader, namespace, lease string) (string, error) {
	var found coordinationv1.Lease
	err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: lease}, &found)
	if err != nil || found.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *found.Spec.HolderIdentity, nil
}

// AwaitLead returns when the operator leads.
func (o *Operator) AwaitLead(ctx context.Context) error {
	return o.process.WaitReady(ctx, func(ctx context.Context) error {
		metrics, err := o.Metrics(ctx)
		if err == nil && metrics["scaledjob_leader"] != 1 {
			err = errors.New("the operator does not lead")
		}
		return err
	})
}
