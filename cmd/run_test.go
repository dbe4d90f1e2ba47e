// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestStopBeforeTheCachesHaveSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs, neverSynced := make(chan struct{}), make(chan struct{})
		defer close(hangs)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		NewWithT(t).Expect(stoppable(neverSynced, func(context.Context) error {
			<-hangs
			return nil
		})(ctx)).To(Succeed())
	})
}

func TestStopAfterTheCachesHaveSyncedWaits(t *testing.T) {
	t.Parallel()
	errLate := errors.New("reconciles did not end")
	for name, whenSynced := range map[string]time.Duration{"before": 0, "together with the stop": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				ctx, stop := context.WithCancel(t.Context())
				synced := make(chan struct{})
				go func() {
					time.Sleep(whenSynced)
					g.Expect(closes(synced).Start(ctx)).To(Succeed())
					time.Sleep(time.Hour - whenSynced)
					stop()
				}()
				began := time.Now()
				g.Expect(stoppable(synced, func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(shutdownTimeout)
					return errLate
				})(ctx)).To(MatchError(errLate))
				g.Expect(time.Since(began)).To(Equal(time.Hour + shutdownTimeout))
			})
		})
	}
}

func TestManagerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	errAddress := errors.New("address in use")
	fails := func(context.Context) error { return errAddress }
	NewWithT(t).Expect(stoppable(make(chan struct{}), fails)(t.Context())).To(MatchError(errAddress))
}

// An API server that does not answer holds up no reader for long.
func TestReadsHaveATimeout(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	stalled := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() }))
	t.Cleanup(stalled.Close)
	mapper := apimeta.NewDefaultRESTMapper(nil)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), apimeta.RESTScopeNamespace)
	cluster := &rest.Config{Host: stalled.URL}
	reader, err := newReader(cluster, 50*time.Millisecond, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	g.Expect(err).NotTo(HaveOccurred())
	key := client.ObjectKey{Namespace: "default", Name: "job"}
	g.Expect(reader.Get(t.Context(), key, &batchv1.Job{})).To(MatchError(context.DeadlineExceeded))
	g.Expect(reader.List(t.Context(), &batchv1.JobList{})).To(MatchError(context.DeadlineExceeded))
	g.Expect(cluster.Timeout).To(BeZero(), "watches have no timeout")
}
