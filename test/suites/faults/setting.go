// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// scrapeInterval is how old the metrics may be that are gone by.
const scrapeInterval = 100 * time.Millisecond

// Setting is a control plane without nodes and an operator at work in it, to
// which nothing but events, confirmations and its own retries tells of a queue.
type Setting struct {
	Control  *cluster.Cluster
	API      client.Client // the administrator's
	Operator *operator.Operator

	mu      sync.Mutex
	scraped time.Time
	metrics operator.Metrics
}

// NewSetting starts a setting. CRDs is the folder of the manifests, log gets
// progress lines and may be nil. The context bounds the start.
func NewSetting(ctx context.Context, crds string, log io.Writer) (*Setting, error) {
	control, err := cluster.Start(ctx, cluster.Options{CRDs: []string{crds}, Log: log})
	if err != nil {
		return nil, err
	}
	s := &Setting{Control: control}
	if err := s.start(ctx, log); err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return s, nil
}

func (s *Setting) start(ctx context.Context, log io.Writer) error {
	if err := operator.Install(ctx, s.Control); err != nil {
		return err
	}
	var err error
	if s.API, err = operator.NewClient(s.Control.Config()); err != nil {
		return err
	}
	s.Operator, err = operator.Start(ctx, operator.Options{
		Cluster: s.Control, Args: []string{"--polling-fallback-interval=0"}, Log: log,
	})
	return err
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

// passes returns how many passes the operator has made over a ScaledJob.
func (s *Setting) passes(ctx context.Context, of client.ObjectKey) (int, error) {
	metrics, err := s.scrape(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting the passes over %s: %w", of, err)
	}
	namespace, name := fmt.Sprintf("namespace=%q", of.Namespace), fmt.Sprintf("scaledjob=%q", of.Name)
	return int(metrics.Sum("scaledjob_reconcile_total", namespace, name)), nil
}

// scrape returns the operator's metrics. It fetches them anew when they are old.
func (s *Setting) scrape(ctx context.Context) (operator.Metrics, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.scraped) < scrapeInterval {
		return s.metrics, nil
	}
	metrics, err := s.Operator.Metrics(ctx)
	if err == nil {
		s.metrics, s.scraped = metrics, time.Now()
	}
	return metrics, err
}
