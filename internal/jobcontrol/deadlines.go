// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readTimeout is the timeout of a read from the API server.
const readTimeout = 10 * time.Second

// WithDeadlines returns a reader whose reads end after some time, so that none of them holds up a worker for longer.
func WithDeadlines(reader client.Reader) client.Reader { return deadlines{reader} }

type deadlines struct{ reader client.Reader }

// Get implements client.Reader.
func (d deadlines) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return d.reader.Get(ctx, key, object, opts...)
}

// List implements client.Reader.
func (d deadlines) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return d.reader.List(ctx, list, opts...)
}
