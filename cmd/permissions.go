// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/leadership"
	"miracle.dev/scaledjob-operator/internal/preflight"
)

// reviewTimeout is how long asking for permissions may take. Then the operator starts without knowing the rest.
const reviewTimeout = 10 * time.Second

// needsOf returns what the operator is to do according to its flags.
func needsOf(options options, lease *leadership.Lease) preflight.Needs {
	needs := preflight.Needs{Namespaces: options.namespaces, AuthenticatesMetrics: options.authenticatesMetrics()}
	if lease != nil {
		needs.Lease = lease.Describe()
	}
	return needs
}

// mayWork waits until the operator has the permissions that it can't work without, and logs which others are missing.
// If the API server does not tell, the operator starts all the same.
func mayWork(needs preflight.Needs, ask preflight.Asker, log logr.Logger) prerequisite {
	var required, others []preflight.Permission
	for _, permission := range needs.Permissions() {
		if permission.Required() {
			required = append(required, permission)
		} else {
			others = append(others, permission)
		}
	}
	return func(starting context.Context) (*obstacle, error) {
		ctx, cancel := context.WithTimeout(starting, reviewTimeout)
		defer cancel()
		var missing []preflight.Permission
		var err error
		if missing, required, err = preflight.FirstMissing(ctx, ask, required); len(missing) > 0 {
			return lacking(missing, needs), nil
		}
		if err == nil {
			missing, err = preflight.Missing(ctx, ask, others)
		}
		if err != nil {
			log.Info("the API server does not tell which permissions the operator has; starting without checking them",
				"cause", err.Error())
		}
		if len(needs.Namespaces) > preflight.MaxNamespaces {
			log.Info("permissions were checked only in the first of the namespaces to watch",
				"checked", preflight.MaxNamespaces, "namespaces", len(needs.Namespaces))
		}
		logDegraded(missing, log)
		return nil, nil
	}
}

// lacking is the obstacle of missing permissions.
func lacking(missing []preflight.Permission, needs preflight.Needs) *obstacle {
	cure := "apply the RBAC rules of this version, and bind the roles to its ServiceAccount in all namespaces, " +
		"or name the namespaces to watch with --watch-namespaces"
	if len(needs.Namespaces) > 0 {
		cure = "apply the RBAC rules of this version, and bind the roles to its ServiceAccount in each namespace that " +
			"--watch-namespaces names, and in its own; a namespace that does not exist grants no permissions, so leave it out"
	}
	return &obstacle{
		waiting: "the operator lacks permissions; waiting for them",
		details: []any{"denied", commands(missing)},
		reason: fmt.Errorf("the operator lacks permissions that it can't work without: %s. These commands must answer yes "+
			"if --as names the ServiceAccount: %s", cure, commands(missing)),
	}
}

// logDegraded logs, once per consequence, the missing permissions that the operator can work without.
func logDegraded(missing []preflight.Permission, log logr.Logger) {
	without := map[string][]preflight.Permission{}
	for _, permission := range missing {
		without[permission.Without] = append(without[permission.Without], permission)
	}
	for consequence, permissions := range without {
		log.Info("the operator lacks permissions that it can work without",
			"consequence", consequence, "denied", commands(permissions))
	}
}

// commands returns the commands that check the permissions.
func commands(permissions []preflight.Permission) string {
	texts := make([]string, len(permissions))
	for i, permission := range permissions {
		texts[i] = permission.String()
	}
	return strings.Join(texts, "; ")
}
