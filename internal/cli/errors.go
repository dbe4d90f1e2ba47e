// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

// The exit codes.
const (
	// exitError is for everything that failed.
	exitError = 1
	// exitUnmapped means that convert could not convert everything.
	exitUnmapped = 2
	// exitFound means that doctor has found something.
	exitFound = 3
	// exitInterrupted is what shells use for a program that Ctrl-C ended.
	exitInterrupted = 130
)

// userError is an error whose message is for users as it is: sentences that say what to do. An empty message is not
// printed.
type userError struct {
	code    int
	message string
}

func (e *userError) Error() string { return e.message }

// say returns an error with this message.
func say(format string, args ...any) error {
	return &userError{exitError, fmt.Sprintf(format, args...)}
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	if own, is := errors.AsType[*userError](err); is {
		return own.code
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return exitError
}

// sentence returns what an error means to a user, and what to do about it, on one line.
func sentence(err error) string {
	if own, is := errors.AsType[*userError](err); is {
		return own.message
	}
	var status apierrors.APIStatus
	isStatus := errors.As(err, &status)
	failed, isURL := errors.AsType[*url.Error](err)
	path, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "Interrupted."
	case apimeta.IsNoMatchError(err):
		return "This cluster has no ScaledJobs. Install the operator and its CRD, or choose another cluster with --context."
	case isStatus && apierrors.IsForbidden(err):
		return strings.TrimSuffix(layout.OneLine(status.Status().Message), ".") + ". Ask an administrator for this permission; the roles view and " +
			"edit include those for ScaledJobs."
	case isStatus && apierrors.IsUnauthorized(err):
		return "The cluster does not accept your credentials. Sign in again, or choose other credentials with --context."
	case isURL && strings.HasPrefix(failed.URL, noServer):
		return noCluster
	case isURL:
		return "The API server does not answer: " + layout.OneLine(failed.Err.Error()) + ". Check the network, and the address in the context."
	case isPath:
		return fmt.Sprintf("%s can't be read: %v.", path.Path, path.Err)
	}
	return strings.TrimSuffix(layout.OneLine(err.Error()), ".") + "."
}

const (
	// noServer is the address that a client has when none is configured.
	noServer  = "http://localhost:8080/"
	noCluster = "No cluster is configured. Set KUBECONFIG, or use --kubeconfig or --context."
)

// notFound returns the error for a ScaledJob that does not exist, with the nearest name that does.
func notFound(namespace, name string, existing []string) error {
	if len(existing) == 0 {
		return say("There is no ScaledJob in namespace %q. Choose another namespace with -n, or see all with: kubectl scaledjob status -A",
			namespace)
	}
	return say("There is no ScaledJob %q in namespace %q. %s", name, namespace,
		suggest(name, existing, "See those that exist with: kubectl scaledjob status"))
}

// suggest asks for the nearest of the names that exist. Without one that is near, it returns the alternative.
func suggest(name string, existing []string, otherwise string) string {
	if near := nearest(name, existing); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return otherwise
}

// nearest returns the name that differs least; empty if all differ in more than about a third of their letters.
func nearest(name string, existing []string) string {
	found, least := "", len(name)/3+2
	for _, each := range existing {
		if d := distance(name, each); d < least {
			found, least = each, d
		}
	}
	return found
}

// distance returns how many letters have to be inserted, removed, replaced or exchanged with the next one.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// resource is how kubectl names ScaledJobs in its output.
var resource = "scaledjob." + scaledjobv1.GroupVersion.Group
