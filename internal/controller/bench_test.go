// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// BenchmarkReconcileAtRest measures a reconcile that finds nothing to do. With many ScaledJobs, most are of this kind.
func BenchmarkReconcileAtRest(b *testing.B) {
	w := newFakeEnv(b, scaledJob())
	w.reconcile(b.Context())
	settled := &scaledjob.ScaledJob{ScaledJob: *w.scaledJob(b.Context())}
	settled.Template.Hash = w.r.memories.of(scaledJob()).templateHash
	w.r.Cache = memoryCache{settled}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.r.Reconcile(b.Context(), requestOf(emails)); err != nil {
			b.Fatal(err)
		}
	}
	w.Expect(w.applied).To(Equal(1), "a benchmark that writes statuses measures something else")
}

// memoryCache is a cache with one ScaledJob and no Jobs.
type memoryCache struct{ sj *scaledjob.ScaledJob }

func (c memoryCache) ScaledJob(types.NamespacedName) (*scaledjob.ScaledJob, error) { return c.sj, nil }

func (memoryCache) Owned(string, types.UID) ([]*batchv1.Job, error) { return nil, nil }
