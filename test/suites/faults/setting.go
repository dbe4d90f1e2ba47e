// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// Setting is a control plane without nodes and an operator at work in it, to
// which nothing but events, confirmations and its own retries tells of a queue.
type Setting struct {
	Control  *cluster.Cluster
	API      client.Client // the administrator's
	Operator *operator.Operator
}

// NewSetting starts a setting. The log gets progress lines and may be nil. The context bounds the start.
func NewSetting(ctx context.Context, log io.Writer) (*Setting, error) {
	control, api, err := operator.StartCluster(ctx, cluster.Options{Log: log})
	if err != nil {
		return nil, err
	}
	running, err := startOperator(ctx, control, log)
	if err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return &Setting{Control: control, API: api, Operator: running}, nil
}

// Restart stops the operator and starts another one.
func (s *Setting) Restart(ctx context.Context) error {
	if err := s.Operator.Stop(ctx); err != nil {
		return err
	}
	next, err := startOperator(ctx, s.Control, nil)
	if err == nil {
		s.Operator = next
	}
	return err
}

func startOperator(ctx context.Context, control *cluster.Cluster, log io.Writer) (*operator.Operator, error) {
	return operator.Start(ctx, operator.Options{Cluster: control, Args: []string{"--polling-fallback-interval=0"}, Log: log})
}

// Stop ends the operator, which must end well, and the control plane.
func (s *Setting) Stop(ctx context.Context) error {
	return errors.Join(s.Operator.Stop(ctx), s.Control.Stop())
}

// Alive returns an error unless the operator runs and says that it is well.
func (s *Setting) Alive(ctx context.Context) error {
	select {
	case <-s.Operator.Exited():
		return errors.New("the operator has ended")
	default:
	}
	if _, err := operator.Get(ctx, s.Operator.ProbeURL()+"/healthz"); err != nil {
		return fmt.Errorf("asking whether the operator is well: %w", err)
	}
	return nil
}
