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
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// crdTimeout is how long the operator waits at startup until the API server serves ScaledJobs, and crdInterval how
	// often it asks. The startupProbe of the Deployment allows for that time.
	crdTimeout  = time.Minute
	crdInterval = time.Second
	// installCRD tells users how to install the CRD.
	installCRD = "make install, or kubectl apply -f config/crd/bases/batch.miracle.dev_scaledjobs.yaml"
)

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

// awaitCRD waits until the API server serves ScaledJobs. It returns false without an error if ctx ends before, and an
// error if that takes longer than crdTimeout or the API server can't be asked. The CRD may be applied together with the
// operator, and the API server serves it some moments later. Discovery needs no RBAC rule. awaitCRD uses the mapper of
// the manager, so that the manager finds the kind even if it connects to another replica of the API server that does
// not serve it yet.
func awaitCRD(ctx context.Context, mapper apimeta.RESTMapper, log logr.Logger) (served bool, err error) {
	kind := scaledjobv1.GroupVersion.WithKind("ScaledJob")
	timeout := time.NewTimer(crdTimeout)
	defer timeout.Stop()
	ticker := time.NewTicker(crdInterval)
	defer ticker.Stop()
	for first := true; ; first = false {
		select {
		case err = <-lookUp(mapper, kind):
		case <-time.After(crdTimeout):
			return false, fmt.Errorf("the API server has not answered within %v which kinds it serves", crdTimeout)
		case <-ctx.Done():
			return false, nil
		}
		if err == nil || !notYetServed(err) {
			return err == nil, err
		}
		if first {
			log.Info("the API server does not serve ScaledJobs; waiting for their CRD",
				"timeout", crdTimeout.String(), "install", installCRD)
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			return false, fmt.Errorf("the API server does not serve ScaledJobs after %v (%w): install their CRD with %s",
				crdTimeout, err, installCRD)
		case <-ctx.Done():
			return false, nil
		}
	}
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
