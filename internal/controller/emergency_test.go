// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// maxReplicas 0 is the emergency stop. Where the API server is slow, a pass of 128 creates takes half a minute.
func TestCreatingEndsSoonAfterMaxReplicasIsLowered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		sj.Spec.MaxReplicas = new(int32(1000))
		w := newWorld(t, sj)
		w.warmUp(t.Context())
		w.queues.SetDepth(emailQueue, 10000)
		var stopped atomic.Bool
		var begunAfter atomic.Int32
		w.onCreate = func(_ context.Context, _ *batchv1.Job, send func() error) error {
			if stopped.Load() {
				begunAfter.Add(1)
			}
			time.Sleep(3900 * time.Millisecond)
			return send()
		}
		go func() {
			time.Sleep(time.Second)
			w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(0)) })
			stopped.Store(true)
		}()
		w.reconcile(t.Context())
		w.Expect(begunAfter.Load()).To(BeNumerically("<=", 16), "creates sent after the emergency stop, over %s", 3900*time.Millisecond*7)
	})
}
