// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// The negative control: behind the same proxy, in the same storm, the usual reconciler creates too many Jobs, and the
// watch sees it.
func TestControlUsualReconcilerInAStorm(t *testing.T) {
	t.Parallel()
	const due = 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	s := newScaledJob(t, namespace, "capped", 1, due)
	startNaive(t, proxy, s)
	s.AwaitSubscription()
	proxy.lag(longLag)

	g.Expect(s.storm(t.Context())).To(Succeed())
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">", due))
	g.Eventually(s.Jobs.Violation).WithTimeout(timeout).Should(ContainSubstring("unfinished"))
}

// naive is the reconciler that one writes first: it counts the Jobs in its
// cache, creates what is missing, and leaves their names to the API server.
type naive struct{ client.Client }

func (n naive) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var sj scaledjobv1.ScaledJob
	if err := n.Get(ctx, request.NamespacedName, &sj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var owned batchv1.JobList
	if err := n.List(ctx, &owned, client.InNamespace(sj.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	depth, err := redis.Client().LLen(ctx, sj.Spec.QueueName).Result()
	if err != nil {
		return ctrl.Result{}, err
	}
	for range min(depth, int64(*sj.Spec.MaxReplicas)) - int64(len(owned.Items)) {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{GenerateName: sj.Name + "-", Namespace: sj.Namespace},
			Spec:       sj.Spec.JobTemplate.Spec,
		}
		if err := ctrl.SetControllerReference(&sj, job, n.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		if err := n.Create(ctx, job); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil
}

// startNaive runs a naive reconciler for the namespace of the ScaledJob until the test ends, which hears of every push.
// It returns when its caches are filled.
func startNaive(t *testing.T, through *proxy, s *scaledJob) {
	t.Helper()
	g := NewWithT(t)
	options := ctrl.Options{
		Scheme:  api.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.Object.Namespace: {}}},
	}
	mgr := must.Get(ctrl.NewManager(through.Config(control.Config()), options))(g)
	pushes := make(chan event.GenericEvent)
	g.Expect(ctrl.NewControllerManagedBy(mgr).For(&scaledjobv1.ScaledJob{}).Owns(&batchv1.Job{}).
		WatchesRawSource(source.Channel(pushes, &handler.EnqueueRequestForObject{})).
		Complete(naive{mgr.GetClient()})).To(Succeed())

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	go hear(ctx, s.Object, pushes)
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	for _, cached := range []client.Object{&batchv1.Job{}, &scaledjobv1.ScaledJob{}} {
		g.Expect(mgr.GetCache().GetInformer(ctx, cached)).Error().NotTo(HaveOccurred())
	}
}

// hear passes on the notifications of the queue until ctx ends.
func hear(ctx context.Context, sj *scaledjobv1.ScaledJob, pushes chan<- event.GenericEvent) {
	subscription := redis.Client().Subscribe(ctx, fmt.Sprintf("__keyspace@0__:%s", sj.Spec.QueueName))
	defer func() { _ = subscription.Close() }()
	for {
		select {
		case <-subscription.Channel():
		case <-ctx.Done():
			return
		}
		select {
		case pushes <- event.GenericEvent{Object: sj}:
		case <-ctx.Done():
			return
		}
	}
}
