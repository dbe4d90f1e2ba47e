// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// An API server that does not answer holds up no reader for long.
func TestReadsHaveADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		reader := WithDeadlines(reading(interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
			List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}))
		for _, read := range []func() error{
			func() error { return reader.Get(t.Context(), client.ObjectKey{}, &batchv1.Job{}) },
			func() error { return reader.List(t.Context(), &batchv1.JobList{}) },
		} {
			began := time.Now()
			g.Expect(read()).To(MatchError(context.DeadlineExceeded))
			g.Expect(time.Since(began)).To(Equal(readTimeout))
		}
	})
}
