// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// BenchmarkReconcileAtRest measures a reconcile that finds nothing to do. With many ScaledJobs, most are of this kind.
func BenchmarkReconcileAtRest(b *testing.B) {
	w := newWorld(b, scaledJob())
	w.reconcile(b.Context())
	settled := &scaledjob.ScaledJob{ScaledJob: *w.scaledJob(b.Context())}
	settled.Template.Hash = w.r.memories.of(scaledJob()).templateHash
	w.r.Client, w.r.Jobs = memoryCache{Client: w.r.Client, sj: settled}, noJobs{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.r.Reconcile(b.Context(), requestOf(emails)); err != nil {
			b.Fatal(err)
		}
	}
	w.Expect(w.applied).To(Equal(1), "a benchmark that writes statuses measures something else")
}

// memoryCache is a cache with one ScaledJob.
type memoryCache struct {
	client.Client

	sj *scaledjob.ScaledJob
}

func (c memoryCache) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*scaledjob.ScaledJob) = *c.sj
	return nil
}

// noJobs is a cache without Jobs.
type noJobs struct{}

func (noJobs) Owned(string, types.UID) ([]*batchv1.Job, error) { return nil, nil }
