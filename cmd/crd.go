// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/preflight"
)

const (
	// startTimeout is how long the operator waits at startup for everything that it needs in the cluster, and
	// startInterval how often it looks again. The startupProbe of the Deployment allows for that time.
	startTimeout  = time.Minute
	startInterval = time.Second
	// schemaLag is how long the API server may take to publish the schema of a kind that it serves, and schemaTimeout
	// how long the request for it may take. Then the operator starts without having compared the fields.
	schemaLag     = 5 * time.Second
	schemaTimeout = 5 * time.Second
	// installCRD says how to install the CRD.
	installCRD = "kubectl apply -f crds.yaml of the same release, or make install in its source"
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
	logged, last := "", fmt.Errorf("the API server has not answered within %v", startTimeout)
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
		case found.waiting != "" && found.waiting != logged:
			logged = found.waiting
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

// servesScaledJobs waits until the API server serves ScaledJobs. The CRD may be applied together with the operator, and
// the API server serves it some moments later. Discovery needs no RBAC rule. The mapper is that of the manager, so that
// the manager finds the kind even if it connects to another replica of the API server that does not serve it yet.
func servesScaledJobs(mapper apimeta.RESTMapper) prerequisite {
	kind := scaledjobv1.GroupVersion.WithKind("ScaledJob")
	return func(ctx context.Context) (*obstacle, error) {
		var err error
		select {
		case err = <-lookUp(mapper, kind):
		case <-ctx.Done():
			return nil, nil
		}
		if err == nil || !notYetServed(err) {
			return nil, err
		}
		return &obstacle{
			waiting: "the API server does not serve ScaledJobs; waiting for their CRD",
			details: []any{"install", installCRD},
			reason: fmt.Errorf("the API server does not serve ScaledJobs after %v (%w): install their CRD with %s",
				startTimeout, err, installCRD),
		}, nil
	}
}

// hasAllFields waits until the CRD has all fields that this operator knows. It logs the fields of a newer CRD. If the
// API server does not say, the operator starts anyway.
func hasAllFields(read func(context.Context) ([]byte, error), log logr.Logger) prerequisite {
	var began time.Time
	return func(ctx context.Context) (*obstacle, error) {
		if began.IsZero() {
			began = time.Now()
		}
		fields, err := readFields(ctx, read)
		switch {
		case notYetPublished(err) && time.Since(began) < schemaLag:
			return &obstacle{reason: err}, nil
		case err != nil:
			log.Info("the API server does not say which fields the CRD has; starting without comparing them",
				"cause", err.Error())
		case len(fields.Missing) > 0:
			lacks := strings.Join(fields.Missing, ", ")
			return &obstacle{
				waiting: "the CRD is older than this operator; waiting for that of this version",
				details: []any{"lacks", lacks, "install", installCRD},
				reason: fmt.Errorf("the CRD is older than this operator and lacks the fields %s: "+
					"install that of this version with %s", lacks, installCRD),
			}, nil
		case len(fields.Unknown) > 0:
			log.Info("the CRD is newer than this operator; ScaledJobs that use these fields get no Jobs until the "+
				"operator is upgraded", "fields", strings.Join(fields.Unknown, ", "))
		}
		return nil, nil
	}
}

// readFields compares the fields of the CRD with those of this operator.
func readFields(ctx context.Context, read func(context.Context) ([]byte, error)) (preflight.Fields, error) {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	document, err := read(ctx)
	if err != nil {
		return preflight.Fields{}, err
	}
	return preflight.CompareFields(document)
}

// notYetPublished reports whether the API server has no schema of ScaledJobs yet.
func notYetPublished(err error) bool {
	return apierrors.IsNotFound(err) || errors.Is(err, preflight.ErrNotPublished)
}

// lookUp asks the API server whether it serves a kind. It returns a channel, because calls of a mapper can't be
// canceled.
func lookUp(mapper apimeta.RESTMapper, kind schema.GroupVersionKind) <-chan error {
	answer := make(chan error, 1)
	go func() {
		// Some mappers cache that a kind is not served.
		apimeta.MaybeResetRESTMapper(mapper)
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			err = fmt.Errorf("asking the API server for the kinds that it serves: %w", err)
		}
		answer <- err
	}()
	return answer
}

// notYetServed reports whether the API server answered that it does not serve the kind yet.
func notYetServed(err error) bool {
	return apimeta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err)
}
