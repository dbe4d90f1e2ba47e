// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// crdTimeout is how long the operator waits at its start for its CRD, and crdInterval how often it looks. The startupProbe of the
	// Deployment leaves it that time.
	crdTimeout  = time.Minute
	crdInterval = time.Second
	// installCRD is how to install it.
	installCRD = "make install, or kubectl apply -f config/crd/bases/batch.miracle.dev_scaledjobs.yaml"
)

// awaitCRD waits until the API server serves ScaledJobs, and returns false without an error if ctx ends before. If both are applied in one
// command, the operator can start before its CRD is established. Every authenticated user may ask for the kinds that are served. The mapper is
// the one that the manager uses later: it keeps what it has found, even if another API server behind the same address does not know it yet.
func awaitCRD(ctx context.Context, mapper apimeta.RESTMapper, log logr.Logger) (served bool, err error) {
	kind := scaledjobv1.GroupVersion.WithKind("ScaledJob")
	timeout := time.NewTimer(crdTimeout)
	defer timeout.Stop()
	ticker := time.NewTicker(crdInterval)
	defer ticker.Stop()
	for first := true; ; first = false {
		select {
		case err = <-lookUp(mapper, kind):
		case <-ctx.Done():
			return false, nil
		}
		if err == nil || !mayComeYet(err) {
			return err == nil, err
		}
		if first {
			log.Info("the API server does not serve ScaledJobs; waiting for their CRD", "timeout", crdTimeout.String(), "install", installCRD)
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			return false, fmt.Errorf("the API server does not serve ScaledJobs after %v (%w): install their CRD with %s", crdTimeout, err, installCRD)
		case <-ctx.Done():
			return false, nil
		}
	}
}

// lookUp asks the API server whether it serves a kind. It does not wait for the answer, since mappers can't be told to stop.
func lookUp(mapper apimeta.RESTMapper, kind schema.GroupVersionKind) <-chan error {
	answer := make(chan error, 1)
	go func() {
		// Some mappers remember what is not served.
		apimeta.MaybeResetRESTMapper(mapper)
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			err = fmt.Errorf("asking the API server for the kinds that it serves: %w", err)
		}
		answer <- err
	}()
	return answer
}

// mayComeYet says whether the API server answered, but does not serve the kind yet.
func mayComeYet(err error) bool {
	return apimeta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err)
}
