// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// The negative control: by the same proxy, under the same storm and before the
// same witness, the usual reconciler creates too many Jobs.
func TestNaiveReconcilerCreatesTooMany(t *testing.T) {
	t.Parallel()
	for _, lag := range scene.RowsNamed(t, []time.Duration{shortLag, longLag}, time.Duration.String, longLag.String()) {
		t.Run(lag.String(), func(t *testing.T) {
			const due = 10
			g := NewWithT(t)
			namespace, proxy := newNamespace(t), startProxy(t)
			s := newScaledJob(t, namespace, "capped", 1, due)
			startNaive(t, proxy, s)
			s.awaitSubscription(t)
			proxy.lag(lag)

			g.Expect(s.storm(t.Context())).To(Succeed())
			g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">", due))
			g.Eventually(s.Witness.Verdict).WithTimeout(timeout).Should(ContainSubstring("unfinished"))
		})
	}
}

// A standby whose cache is stale takes over.
func TestNaiveStandbyCreatesTooMany(t *testing.T) {
	skip.UnderShort(t, "a control; TestNaiveReconcilerCreatesTooMany is enough to see that the witness can fail")
	t.Parallel()
	sighted, blind := startProxy(t), startProxy(t)
	s := newScaledJob(t, newNamespace(t), "capped", 1, saturation)
	election := func(options *ctrl.Options) {
		options.LeaderElection, options.LeaderElectionReleaseOnCancel = true, true
		options.LeaderElectionID, options.LeaderElectionNamespace = "naive", s.Object.Namespace
	}
	stopLeader := startNaive(t, sighted, s, election)
	startNaive(t, blind, s, election)
	blind.jobs.Set(frozen)

	g := NewWithT(t)
	g.Expect(s.PushTogether(t.Context(), stormPushes)).To(Succeed())
	made := settle(t, s)
	stopLeader()
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", made+saturation))
}

func TestTwoNaiveReconcilersCreateTooMany(t *testing.T) {
	skip.UnderShort(t, "a control; TestNaiveReconcilerCreatesTooMany is enough to see that the witness can fail")
	t.Parallel()
	s := newScaledJob(t, newNamespace(t), "capped", 1, saturation)
	for range 2 {
		proxy := startProxy(t)
		startNaive(t, proxy, s)
		proxy.lag(longLag)
	}

	g := NewWithT(t)
	g.Expect(s.PushTogether(t.Context(), stormPushes)).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">", saturation))
}

// A create is carried out after the next reconciler has replaced it.
func TestNaiveReconcilerAfterAnotherCreatesTooMany(t *testing.T) {
	skip.UnderShort(t, "a control; TestNaiveReconcilerCreatesTooMany is enough to see that the witness can fail")
	t.Parallel()
	s := newScaledJob(t, newNamespace(t), "capped", 1, saturation)
	former := startProxy(t)
	stop := startNaive(t, former, s)
	late := former.holdCreates(saturation/2, 1)

	g := NewWithT(t)
	g.Expect(s.PushTogether(t.Context(), stormPushes)).To(Succeed())
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">", 0))
	stop()
	startNaive(t, startProxy(t), s)
	made := settle(t, s)
	g.Expect(late.Release()).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">", made))
}

// Jobs that go because their ScaledJob is deleted are replaced.
func TestNaiveReconcilerReplacesWhatIsDeleted(t *testing.T) {
	skip.UnderShort(t, "a control; TestNaiveReconcilerCreatesTooMany is enough to see that the witness can fail")
	t.Parallel()
	proxy := startProxy(t)
	s := newScaledJob(t, newNamespace(t), "deleted", 1, saturation)
	startNaive(t, proxy, s)
	proxy.scaledJobs.Set(longLag)

	g := NewWithT(t)
	g.Expect(s.PushTogether(t.Context(), stormPushes)).To(Succeed())
	made := settle(t, s)
	g.Expect(api.Delete(t.Context(), s.Object, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">", made))
}

// settle returns how many Jobs there are once a naive reconciler takes them to be
// enough. Some may be too many even without a fault.
func settle(t *testing.T, s *scaledJob) (made int) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation))
	g.Expect(scene.Pause(t.Context(), longLag)).To(Succeed()) // until its cache shows them
	return s.Witness.Created()
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

// startNaive runs a naive reconciler for the namespace of the ScaledJob, which hears
// of every push. It returns when its caches are filled, and gives back what stops
// it.
func startNaive(t *testing.T, through *proxy, s *scaledJob, adjust ...func(*ctrl.Options)) (stop func()) {
	t.Helper()
	g := NewWithT(t)
	anyName := true
	options := ctrl.Options{
		Scheme:     api.Scheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{s.Object.Namespace: {}}},
		Controller: config.Controller{SkipNameValidation: &anyName},
	}
	for _, apply := range adjust {
		apply(&options)
	}
	mgr, err := ctrl.NewManager(through.config(control.Config()), options)
	g.Expect(err).NotTo(HaveOccurred())
	pushes := make(chan event.GenericEvent)
	g.Expect(ctrl.NewControllerManagedBy(mgr).For(&scaledjobv1.ScaledJob{}).Owns(&batchv1.Job{}).
		WatchesRawSource(source.Channel(pushes, &handler.EnqueueRequestForObject{})).
		Complete(naive{mgr.GetClient()})).To(Succeed())

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	go hear(ctx, s.Object, pushes)
	stop = sync.OnceFunc(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	t.Cleanup(stop)
	for _, cached := range []client.Object{&batchv1.Job{}, &scaledjobv1.ScaledJob{}} {
		_, err := mgr.GetCache().GetInformer(ctx, cached)
		g.Expect(err).NotTo(HaveOccurred())
	}
	return stop
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
