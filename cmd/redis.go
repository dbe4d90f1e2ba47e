// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/internal/redis/secrets"
)

// tokenFile is the path of the ServiceAccount token in a Pod.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// newPool returns the pool of Redis connections. It reads Secrets with live, and restricts addresses by the flags.
func newPool(live client.Reader, options options) *connection.Pool {
	guard := dialguard.Policy{Allow: options.redisAllow, Deny: options.redisDeny, RefuseLoopback: inPod(tokenFile)}
	return connection.NewPool(connection.Options{
		Secrets:          secrets.NewReader(live),
		Control:          guard.Control,
		AllowInsecureTLS: options.allowInsecureTLS,
		ServersPerTenant: options.serversPerNamespace,
		Connections:      options.connectionsPerServer,
		Log:              ctrl.Log.WithName("redis"),
	})
}

// inPod reports whether this process runs in a Pod. In a Pod, loopback addresses are denied: users who name them mean
// their own host, but the operator would connect to itself.
func inPod(tokenFile string) bool {
	_, err := os.Stat(tokenFile)
	return err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
