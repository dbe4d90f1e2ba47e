// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package secrets reads the Secrets that a ScaledJob names for its Redis. Each is asked for by name: the operator may get Secrets and neither
// list nor watch them, so that it knows of no others.
package secrets

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// timeout is how long a read may take. Connections that are in use do not wait for it.
const timeout = 3 * time.Second

// Reader reads Secrets from the API server. It is safe for concurrent use.
type Reader struct {
	live client.Reader
}

// NewReader makes a Reader of a client that asks the API server itself, such as a manager's API reader. One that reads from a cache would try
// to list and watch all Secrets.
func NewReader(live client.Reader) *Reader { return &Reader{live: live} }

// Read returns what a Secret holds now, whatever its type. The error is an [*failure.Error] if the API server says that there is no such
// Secret or that it may not be read. Any other error means that this is not known. No error tells anything of the content.
func (r *Reader) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	// The client library logs the bodies of answers where the log of the context takes that, which is the case at high verbosity.
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, logr.Discard()), timeout)
	defer cancel()
	var secret corev1.Secret
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, classify(name, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err))
	}
	return secret.Data, nil
}

// classify recognizes what the API server decides. The same status codes from something before it, such as a proxy, say nothing about Secrets.
func classify(name string, err error) error {
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return err
	}
	switch {
	case apierrors.IsNotFound(err):
		return &failure.Error{
			Reason:  failure.ReasonSecretNotFound,
			Message: fmt.Sprintf("There is no Secret %q in the namespace of the ScaledJob. Create it there, or correct spec.redis.", name),
			Err:     err,
		}
	case apierrors.IsForbidden(err):
		return &failure.Error{
			Reason:  failure.ReasonSecretForbidden,
			Message: fmt.Sprintf("The operator may not read the Secret %q. Allow its ServiceAccount to get Secrets in the namespace.", name),
			Err:     err,
		}
	}
	return err
}
