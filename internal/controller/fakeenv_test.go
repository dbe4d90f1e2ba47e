// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

const address = "redis.mail.svc:6379"

var (
	emails     = types.NamespacedName{Namespace: "mail", Name: "emails"}
	emailQueue = "emails"
)

// scaledJob is the ScaledJob of the tests: one Job per ten messages, at most 20 Jobs.
func scaledJob() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: emails.Namespace, Name: emails.Name, UID: "uid-1", Generation: 1},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:              "emails",
			RedisAddress:           address,
			Threshold:              10,
			MaxReplicas:            new(int32(20)),
			PollingIntervalSeconds: 30,
			JobTemplate: &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "worker:1"}}},
			}}},
		},
	}
}

// fakeEnv is a Reconciler with fakes. A fake client is both the API server and the cache, which can be made to lag.
type fakeEnv struct {
	Gomega

	r       *Reconciler
	api     client.WithWatch
	servers *fakeServers
	queues  *fakeQueues
	watcher *fakeWatcher
	events  *eventLog
	metrics prometheus.Gatherer
	store   toolscache.Store

	// onCreate is called for each create of a Job, except dry runs, and may send it.
	onCreate func(ctx context.Context, job *batchv1.Job, send func() error) error
	// onDryRun, onList, onApply and onLiveGet are called for requests of their kind. They return an error, or nil to
	// let the request through.
	onDryRun  func() error
	onList    func() error
	onApply   func() error
	onLiveGet func(object client.Object) error
	// onAnswer may change the answer to a write of the status.
	onAnswer func(object client.Object)
	// onTakeover is called before the Jobs of previous leaders are listed.
	onTakeover func(ctx context.Context) error
	// onDelete is called before a Job is deleted.
	onDelete func(ctx context.Context, job client.Object, expected *metav1.Preconditions) error
	// specErr and statusErr are the errors of decoding the ScaledJob.
	specErr, statusErr error
	// hidden are the Jobs that the cache does not show.
	hidden func(*batchv1.Job) bool

	mu sync.Mutex
	// created are the names of the Jobs whose creates were sent, in order. applied is the number of status writes.
	created []string
	applied int
	// shared are the ScaledJobs that were read from the cache.
	shared []shared
}

// newFakeEnv returns a fakeEnv with these objects and an empty queue.
func newFakeEnv(tb testing.TB, objects ...client.Object) *fakeEnv {
	tb.Helper()
	w := &fakeEnv{
		Gomega:    NewWithT(tb),
		servers:   &fakeServers{},
		queues:    &fakeQueues{},
		watcher:   &fakeWatcher{state: keyspace.State{Verdict: verify.Verdict{Reason: verify.ReasonSubscribed}}},
		events:    &eventLog{},
		onCreate:  func(_ context.Context, _ *batchv1.Job, send func() error) error { return send() },
		onDryRun:  func() error { return nil },
		onList:    func() error { return nil },
		onApply:   func() error { return nil },
		onLiveGet: func(client.Object) error { return nil },
		onDelete:  func(context.Context, client.Object, *metav1.Preconditions) error { return nil },
		hidden:    func(*batchv1.Job) bool { return false },
		onAnswer:  func(client.Object) { /* as it is */ },

		onTakeover: func(context.Context) error { return nil },
	}
	scheme := runtime.NewScheme()
	w.Expect(scaledjobv1.AddToScheme(scheme)).To(Succeed())
	w.Expect(batchv1.AddToScheme(scheme)).To(Succeed())
	w.api = fake.NewClientBuilder().
		WithScheme(scheme).
		WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&scaledjobv1.ScaledJob{}).
		WithObjects(objects...).
		Build()
	stores := &jobcontrol.Stores{}
	w.store = stores.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
	w.cacheIsAt("1000000")
	cached := interceptor.NewClient(w.api, interceptor.Funcs{
		Create: w.create, Get: w.getCached, Delete: w.remove, SubResourceApply: w.applyStatus,
	})
	live := interceptor.NewClient(w.api, interceptor.Funcs{Get: w.getLive, List: w.listLive})
	registry := prometheus.NewPedanticRegistry()
	collectors := metrics.New(registry)
	w.metrics = collectors.With(registry)
	w.r = &Reconciler{
		Cache:    envCache{w, tb.Context()},
		Client:   cached,
		Live:     live,
		Servers:  w.servers,
		Queues:   w.queues,
		Watcher:  w.watcher,
		Gate:     jobcontrol.NewGate(cached, live, stores, nil),
		Recorder: w.events,
		Metrics:  collectors,
		Statuses: &report.StatusWriter{Client: cached},
		Wakes:    enqueue.NewWakes(),
		Leads:    func() bool { return true },
	}
	tb.Cleanup(w.expectNothingChanged)
	return w
}

// cacheIsAt sets the resource version of the Job cache.
func (w *fakeEnv) cacheIsAt(version string) { w.Expect(w.store.Replace(nil, version)).To(Succeed()) }

// create creates a Job with a UID, like the API server.
func (w *fakeEnv) create(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
	if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		return w.onDryRun()
	}
	job := object.(*batchv1.Job)
	w.mu.Lock()
	w.created = append(w.created, job.Name)
	w.mu.Unlock()
	return w.onCreate(ctx, job, func() error {
		job.UID = types.UID("uid of " + job.Name)
		job.CreationTimestamp = metav1.Now().Rfc3339Copy()
		return c.Create(ctx, job, opts...)
	})
}

// envCache is what the cache shows of a fakeEnv.
type envCache struct {
	*fakeEnv

	ctx context.Context
}

func (c envCache) ScaledJob(key types.NamespacedName) (*scaledjob.ScaledJob, error) {
	var found scaledjob.ScaledJob
	if err := decodeAs(c.ctx, c.api, key, &found); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	found.SpecErr, found.StatusErr = c.specErr, c.statusErr
	slim, err := scaledjob.Slim(&found)
	if err != nil {
		return nil, err
	}
	return c.share(slim.(*scaledjob.ScaledJob)), nil
}

func (c envCache) Owned(namespace string, owner types.UID) ([]*batchv1.Job, error) {
	shown, err := c.shown(c.ctx)
	var owned []*batchv1.Job
	for _, job := range shown {
		if job.Namespace == namespace && jobs.ControllerUID(&job) == owner {
			owned = append(owned, &job)
		}
	}
	return owned, err
}

// shown returns the Jobs that the cache shows.
func (w *fakeEnv) shown(ctx context.Context) ([]batchv1.Job, error) {
	if err := w.onList(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(w.jobs(ctx), func(job batchv1.Job) bool { return w.hidden(&job) }), nil
}

// share keeps an object of the cache, which all readers share, and a copy.
func (w *fakeEnv) share(cached *scaledjob.ScaledJob) *scaledjob.ScaledJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = append(w.shared, shared{cached, cached.DeepCopyObject()})
	return cached
}

// shared is an object in the cache, and what it was when it was first read.
type shared struct{ is, was runtime.Object }

// expectNothingChanged expects that nobody has changed an object in the cache.
func (w *fakeEnv) expectNothingChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, object := range w.shared {
		w.Expect(object.is).To(Equal(object.was), "an object in the cache has changed")
	}
}

func (w *fakeEnv) getCached(
	ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	err := c.Get(ctx, key, object, opts...)
	if job, ok := object.(*batchv1.Job); ok && err == nil && w.hidden(job) {
		return apierrors.NewNotFound(batchv1.Resource("jobs"), key.Name)
	}
	return err
}

func (w *fakeEnv) getLive(
	ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	var err error
	if found, ok := object.(*scaledjob.ScaledJob); ok {
		err = decodeAs(ctx, c, key, found, opts...)
	} else {
		err = c.Get(ctx, key, object, opts...)
	}
	if err != nil {
		return err
	}
	return w.onLiveGet(object)
}

// decodeAs reads a ScaledJob and decodes it like the operator.
func decodeAs(
	ctx context.Context, c client.Reader, key client.ObjectKey, into *scaledjob.ScaledJob, opts ...client.GetOption,
) error {
	var stored scaledjobv1.ScaledJob
	if err := c.Get(ctx, key, &stored, opts...); err != nil {
		return err
	}
	*into = decoded(&stored)
	return nil
}

func decoded(stored *scaledjobv1.ScaledJob) (sj scaledjob.ScaledJob) {
	data, err := json.Marshal(stored)
	if err == nil {
		err = sj.UnmarshalJSON(data)
	}
	if err != nil {
		panic(err)
	}
	return sj
}

// listLive lists the Jobs of previous leaders.
func (w *fakeEnv) listLive(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if err := w.onTakeover(ctx); err != nil {
		return err
	}
	return c.List(ctx, list, opts...)
}

// remove deletes a Job.
func (w *fakeEnv) remove(ctx context.Context, c client.WithWatch, job client.Object, opts ...client.DeleteOption) error {
	if err := w.onDelete(ctx, job, (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions); err != nil {
		return err
	}
	return c.Delete(ctx, job, opts...)
}

func (w *fakeEnv) applyStatus(
	ctx context.Context, c client.Client, subresource string, status runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	if err := w.onApply(); err != nil {
		return err
	}
	w.mu.Lock()
	w.applied++
	w.mu.Unlock()
	if err := c.SubResource(subresource).Apply(ctx, status, opts...); err != nil {
		return err
	}
	w.onAnswer(status.(client.Object))
	return nil
}

func requestOf(key types.NamespacedName) ctrl.Request { return ctrl.Request{NamespacedName: key} }

// reconcile runs a reconcile that must succeed, and must set a priority.
func (w *fakeEnv) reconcile(ctx context.Context) ctrl.Result {
	result, err := w.r.Reconcile(ctx, requestOf(emails))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.Priority).NotTo(BeNil())
	return result
}

// awaitNumbers reconciles when the status may be written, of which only numbers or messages have changed.
func (w *fakeEnv) awaitNumbers(ctx context.Context) {
	time.Sleep(lateStatus)
	w.reconcile(ctx)
}

// reconcileFails runs a reconcile that must fail, and returns its error.
func (w *fakeEnv) reconcileFails(ctx context.Context) error {
	result, err := w.r.Reconcile(ctx, requestOf(emails))
	w.Expect(err).To(HaveOccurred())
	w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityNormal)))
	return err
}

// jobs returns all existing Jobs.
func (w *fakeEnv) jobs(ctx context.Context) []batchv1.Job {
	var all batchv1.JobList
	w.Expect(w.api.List(ctx, &all)).To(Succeed())
	return all.Items
}

// names returns the names of the creates that were sent.
func (w *fakeEnv) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.created)
}

// inDoubt returns the creates without an answer whose Jobs do not exist.
func (w *fakeEnv) inDoubt(ctx context.Context) []jobcontrol.Unanswered {
	var all []*batchv1.Job
	for _, job := range w.jobs(ctx) {
		all = append(all, &job)
	}
	owned := jobs.Classify(all, "uid-1")
	return w.r.Gate.Observe("uid-1", &owned)
}

func (w *fakeEnv) scaledJob(ctx context.Context) *scaledjobv1.ScaledJob {
	var sj scaledjobv1.ScaledJob
	w.Expect(w.api.Get(ctx, emails, &sj)).To(Succeed())
	return &sj
}

// edit changes the spec and increments the generation.
func (w *fakeEnv) edit(ctx context.Context, change func(*scaledjobv1.ScaledJobSpec)) {
	sj := w.scaledJob(ctx)
	change(&sj.Spec)
	sj.Generation++
	w.Expect(w.api.Update(ctx, sj)).To(Succeed())
}

// finish makes a Job finish, like the Job controller.
func (w *fakeEnv) finish(ctx context.Context, name string, kind batchv1.JobConditionType) {
	w.finishAt(ctx, name, kind, time.Now())
}

// finishAt is finish for a Job that ended at another time.
func (w *fakeEnv) finishAt(ctx context.Context, name string, kind batchv1.JobConditionType, at time.Time) {
	var job batchv1.Job
	w.Expect(w.api.Get(ctx, types.NamespacedName{Namespace: emails.Namespace, Name: name}, &job)).To(Succeed())
	job.Status.Conditions = []batchv1.JobCondition{{
		Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Truncate(time.Second)),
	}}
	w.Expect(w.api.Status().Update(ctx, &job)).To(Succeed())
}

// delete deletes a Job, like a user.
func (w *fakeEnv) delete(ctx context.Context, name string) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: emails.Namespace, Name: name}}
	w.Expect(w.api.Delete(ctx, job)).To(Succeed())
}

// condition returns a condition of the stored status.
func (w *fakeEnv) condition(ctx context.Context, kind string) metav1.Condition {
	found := apimeta.FindStatusCondition(w.scaledJob(ctx).Status.Conditions, kind)
	w.Expect(found).NotTo(BeNil(), kind)
	return *found
}

// scrape returns the metrics of ScaledJobs by name. The value of a histogram is its number of observations.
func (w *fakeEnv) scrape() map[string]float64 {
	families, err := w.metrics.Gather()
	w.Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) > 0 {
				values[family.GetName()] += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() +
					float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

// fakeServers records the claimed server, and can refuse all claims.
type fakeServers struct {
	replica  bool
	claimed  *auth.Endpoint
	refusal  error
	rejected *failure.Error
	expiry   time.Time
}

func (f *fakeServers) Claim(_, _ string, endpoint auth.Endpoint, _ int, _ ...string) error {
	f.claimed = &endpoint
	if f.refusal != nil {
		f.claimed = nil
	}
	return f.refusal
}

func (f *fakeServers) Release(_, _ string) { f.claimed = nil }

func (f *fakeServers) Rejected(auth.Endpoint) *failure.Error { return f.rejected }

func (f *fakeServers) CertificatesExpire(auth.Endpoint) time.Time { return f.expiry }

func (f *fakeServers) Replica(auth.Endpoint) bool { return f.replica }

// fakeWatcher records calls, and returns what the test sets.
type fakeWatcher struct {
	endpoint  auth.Endpoint
	keys      []keyspace.Key
	tracked   bool // without a subscription
	forgotten bool
	idle      bool
	observed  []int64 // depths

	notified time.Time
	missed   bool
	state    keyspace.State
}

func (f *fakeWatcher) Ensure(_ keyspace.ID, endpoint auth.Endpoint, from keyspace.Sources, keys ...keyspace.Key) {
	f.endpoint, f.keys, f.forgotten, f.tracked = endpoint, keys, false, from == keyspace.OnlyTracking
}

func (f *fakeWatcher) Forget(keyspace.ID) { f.forgotten = true }

func (f *fakeWatcher) Acknowledge(keyspace.ID) time.Time {
	notified := f.notified
	f.notified = time.Time{}
	return notified
}

func (f *fakeWatcher) Observed(_ keyspace.ID, key string, depth int64, _ time.Time) bool {
	if slices.ContainsFunc(f.keys, func(known keyspace.Key) bool { return known.Name == key }) {
		f.observed = append(f.observed, depth)
	}
	return f.missed
}

func (f *fakeWatcher) State(keyspace.ID) keyspace.State { return f.state }

func (f *fakeWatcher) SetIdle(_ keyspace.ID, idle bool) { f.idle = idle }

// eventLog records the reasons of events, and the object, the note and the annotations of the last one.
type eventLog struct {
	reasons     []string
	regarding   runtime.Object
	note        string
	annotations map[string]string
}

func (l *eventLog) AnnotatedEventf(
	regarding, _ runtime.Object, annotations map[string]string, _, reason, _, _ string, args ...any,
) {
	l.reasons, l.regarding, l.note, l.annotations = append(l.reasons, reason), regarding, args[0].(string), annotations
}
