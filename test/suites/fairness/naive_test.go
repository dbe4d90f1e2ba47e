// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

// naive checks a template with the API server and then creates a Job. It has as many workers as the operator, and gives
// nobody a share of them: a dry run has a worker for as long as it takes.
type naive struct {
	client.Client
	victim string
	served atomic.Int64
}

func (n *naive) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	sj := &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name, UID: "none"},
		Spec:       scaledjobv1.ScaledJobSpec{JobTemplate: jobwatch.IdleJob()},
	}
	accepted := n.Create(ctx, jobs.Build(sj, "template", n.served.Load()+1, 0), client.DryRunAll) == nil
	if accepted && request.Namespace == n.victim {
		n.served.Add(1)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

// startNaive runs the naive reconciler until the test ends. It reconciles what comes from the channel.
func startNaive(t *testing.T, victim string, wakes chan event.GenericEvent) *naive {
	t.Helper()
	g := NewWithT(t)
	manager := must.Get(ctrl.NewManager(shared.Cluster.Config(), ctrl.Options{
		Scheme: shared.API.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: workers},
	}))(g)
	n := &naive{Client: manager.GetClient(), victim: victim}
	err := ctrl.NewControllerManagedBy(manager).Named("naive").
		WatchesRawSource(source.Channel(wakes, &handler.EnqueueRequestForObject{})).Complete(n)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = manager.Start(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return n
}

// workers is how many ScaledJobs the operator reconciles at a time.
const workers = 32

// The negative control: before the same webhook, and by the same count, the usual reconciler makes the neighbour wait
// for the hostile namespace.
func TestControlUsualReconciler(t *testing.T) {
	g := NewWithT(t)
	h := newHostile(t)
	slow := func(review *admissionv1.AdmissionReview) (any, bool) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
		}
		return webhook.Refuse(http.StatusUnprocessableEntity)(review)
	}
	w := h.webhook(webhook.CreateJob, slow)
	victim := shared.Cluster.NewNamespace(t, "neighbour")
	wakes := make(chan event.GenericEvent)
	n := startNaive(t, victim, wakes)
	wake := func(namespace, name string) {
		wakes <- event.GenericEvent{Object: &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	}
	for i := range crowded {
		wake(h.namespace, fmt.Sprint("empty-", i))
	}
	attack := h.untilHeld(w, workers)
	const few = 5
	for i := range few {
		g.Eventually(func() int { return w.Counts().Waiting }).WithPolling(time.Millisecond).Should(Equal(workers), "all workers")
		before := attack.ended()
		wake(victim, "victim")
		g.Eventually(n.served.Load).Should(BeEquivalentTo(i + 1))
		g.Expect(attack.ended()).To(BeNumerically(">", before), "requests of the hostile namespace that came to their end")
	}
}
