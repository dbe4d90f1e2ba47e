// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestProcessExitsOnlyUntilTheCachesHaveSynced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var synced atomic.Bool
	var codes []int
	exit := func(code int) { codes = append(codes, code) }
	exitBeforeSync(&synced, exit)
	g.Expect(codes).To(Equal([]int{0}))
	synced.Store(true)
	exitBeforeSync(&synced, exit)
	g.Expect(codes).To(HaveLen(1), "reconciles have to end in order")
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
