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

// tokenFile is where a Pod has the token of its ServiceAccount.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// newPool makes the connections to Redis, which sign in by Secrets that are read from live, and lead to where the flags allow.
func newPool(live client.Reader, options options) *connection.Pool {
	guard := dialguard.Policy{Allow: options.redisAllow, Deny: options.redisDeny, RefuseLoopback: inPod(tokenFile)}
	pool := connection.NewPool(connection.Options{
		Secrets:          secrets.NewReader(live),
		Control:          guard.Control,
		AllowInsecureTLS: options.allowInsecureTLS,
		ServersPerTenant: options.serversPerNamespace,
		Log:              ctrl.Log.WithName("redis"),
	})
	connection.RedirectLogs(ctrl.Log.WithName("go-redis"), pool)
	return pool
}

// inPod tells whether this process runs in a Pod. There, whoever names the loopback address of a Redis means their own host and would get the
// operator's.
func inPod(tokenFile string) bool {
	_, err := os.Stat(tokenFile)
	return err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
