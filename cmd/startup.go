// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	"miracle.dev/scaledjob-operator/internal/preflight"
)

const (
	// startTimeout is how long the operator waits at startup for everything that it needs in the cluster, and
	// startInterval how often it looks again. The startupProbe of the Deployment allows for that time.
	startTimeout  = time.Minute
	startInterval = time.Second
)

// obstacle is something that keeps the operator from working, but may be gone soon: what the operator needs may be
// applied together with it.
type obstacle struct {
	// waiting is logged with the details; empty if it is not worth it.
	waiting string
	details []any
	// reason says what to do. The operator ends with it if the obstacle stays.
	reason error
}

// prerequisite returns what keeps the operator from working; nil if nothing does. It returns an error if there is no
// use in waiting.
type prerequisite func(ctx context.Context) (*obstacle, error)

// await waits for the prerequisites, one after the other. It returns false without an error if ctx ends before, and an
// error if that takes longer than startTimeout altogether.
func await(ctx context.Context, log logr.Logger, all ...prerequisite) (met bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(startInterval)
	defer ticker.Stop()
	told, last := "", fmt.Errorf("the API server has not answered within %v", startTimeout)
	for i := 0; i < len(all); {
		found, err := all[i](bounded)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case bounded.Err() != nil:
			return false, last
		case err != nil:
			return false, err
		case found == nil:
			i++
			continue
		case found.waiting != "" && found.waiting != told:
			told = found.waiting
			log.Info(found.waiting, append(found.details, "timeout", startTimeout.String())...)
		}
		last = found.reason
		select {
		case <-ticker.C:
		case <-bounded.Done():
		}
	}
	return true, nil
}

// awaitCluster waits until the cluster has everything that the operator needs.
func awaitCluster(ctx context.Context, mgr ctrl.Manager) (bool, error) {
	schemas, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return false, fmt.Errorf("preparing to read the schema of ScaledJobs: %w", err)
	}
	readSchemas := func(ctx context.Context) ([]byte, error) {
		return preflight.ReadSchemas(ctx, schemas.RESTClient())
	}
	return await(ctx, ctrl.Log, servesScaledJobs(mgr.GetRESTMapper()), hasAllFields(readSchemas, ctrl.Log))
}

// awaitManager creates the manager. That asks the API server and can't be canceled, so awaitManager returns nil without
// an error as soon as ctx ends.
func awaitManager(ctx context.Context, create func() (ctrl.Manager, error)) (ctrl.Manager, error) {
	type result struct {
		mgr ctrl.Manager
		err error
	}
	created := make(chan result, 1)
	go func() {
		mgr, err := create()
		created <- result{mgr, err}
	}()
	select {
	case made := <-created:
		if made.err != nil {
			return nil, fmt.Errorf("creating the manager: %w", made.err)
		}
		return made.mgr, nil
	case <-ctx.Done():
		return nil, nil
	}
}
