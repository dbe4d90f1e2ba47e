// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apiversion "k8s.io/apimachinery/pkg/version"

	"miracle.dev/scaledjob-operator/internal/preflight"
)

// versionTimeout is how long the request for the version of Kubernetes may take. Then the operator starts without
// knowing it.
const versionTimeout = 5 * time.Second

// warnsOfOldKubernetes logs that Kubernetes is older than the versions that the operator supports. It keeps no operator
// from starting: on such a version, nothing is known to fail.
func warnsOfOldKubernetes(read func(context.Context) (*apiversion.Info, error), log logr.Logger) prerequisite {
	return func(ctx context.Context) (*obstacle, error) {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		defer cancel()
		is, err := read(ctx)
		supported := false
		if err == nil {
			supported, err = preflight.Supported(is.GitVersion)
		}
		switch {
		case err != nil:
			log.Info("the API server does not tell its version; starting without checking it", "cause", err.Error())
		case !supported:
			log.Info("Kubernetes is older than the versions that this operator supports: upgrade the cluster, because "+
				"nobody has tested whether everything works on this one",
				"version", is.GitVersion, "oldestSupported", preflight.OldestKubernetes)
		}
		return nil, nil
	}
}
