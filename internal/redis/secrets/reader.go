// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package secrets reads the Secrets that a ScaledJob names in spec.redis. It gets each Secret by name: the operator has
// no permission to list or watch Secrets, so it cannot see any others.
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

// timeout is the timeout of one read. Connections in use do not wait for reads.
const timeout = 3 * time.Second

// Reader reads Secrets from the API server. It is safe for concurrent use.
type Reader struct {
	live client.Reader
}

// NewReader returns a Reader. The client must read from the API server directly, as the API reader of a manager does. A
// client with a cache would try to list and watch all Secrets.
func NewReader(live client.Reader) *Reader { return &Reader{live: live} }

// Read returns the data of a Secret of any type. The error is a [*failure.Error] if the API server answers that the
// Secret does not exist or may not be read. Any other error means that the API server gave no such answer. No error
// contains data of the Secret.
func (r *Reader) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	// client-go logs the bodies of responses at high verbosity, so it gets no logger.
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, logr.Discard()), timeout)
	defer cancel()
	var secret corev1.Secret
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, classify(name, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err))
	}
	return secret.Data, nil
}

// classify classifies the answers of the API server. A proxy in front of it may return the same status codes; those are
// not about the Secret.
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
