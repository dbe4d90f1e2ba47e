// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

const address = "redis.mail.svc:6379"

var errNoScaledJob = apierrors.NewNotFound(scaledjobv1.GroupVersion.WithResource("scaledjobs").GroupResource(), "")

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

// ofQueues is a ScaledJob of these queues.
func ofQueues(queues ...scaledjobv1.Queue) *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.Spec.QueueName, sj.Spec.Queues = "", queues
	return sj
}

// stream is the queue of a consumer group.
func stream(name, group string) scaledjobv1.Queue {
	return scaledjobv1.Queue{Name: name, Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: group}}
}

func beCondition(status metav1.ConditionStatus, reason string) OmegaMatcher {
	return And(HaveField("Status", status), HaveField("Reason", reason))
}

// fakeEnv is a Reconciler with fakes. Its API server is also the cache, which can be made to lag.
type fakeEnv struct {
	Gomega

	r       *Reconciler
	server  *apiServer // has the Jobs
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
	// onDelete is called before a Job is deleted.
	onDelete func(ctx context.Context, job client.Object, expected *metav1.Preconditions) error
	// specErr and statusErr are the errors of decoding the ScaledJob.
	specErr, statusErr error
	// hidden are the Jobs that the cache does not show.
	hidden func(*batchv1.Job) bool

	// scaledJobs are those that exist. The lock of the server guards them.
	scaledJobs map[types.NamespacedName]*scaledjobv1.ScaledJob

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
		server:    newAPIServer(),
		servers:   &fakeServers{},
		queues:    &fakeQueues{counts: map[string]queue.Count{}, errs: map[string]error{}},
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

		scaledJobs: map[types.NamespacedName]*scaledjobv1.ScaledJob{},
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *scaledjobv1.ScaledJob:
			w.put(object)
		case *batchv1.Job:
			w.server.store(object)
		}
	}
	stores := &jobcontrol.Stores{}
	w.store = stores.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
	w.cacheIsAt("1000000")
	cached, live := envClient{w: w}, envReader{w: w}
	registry := prometheus.NewPedanticRegistry()
	collectors := metrics.New(registry)
	w.metrics = collectors.With(registry)
	w.r = &Reconciler{
		Cache:    envCache{w},
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

// inParallel returns a fakeEnv of a ScaledJob for a test without a bubble, and runs the test in parallel with others.
func inParallel(t *testing.T, sj *scaledjobv1.ScaledJob) *fakeEnv {
	t.Helper()
	t.Parallel()
	return newFakeEnv(t, sj)
}

// inBubble runs a test of a ScaledJob in a bubble of testing/synctest, in parallel with others.
func inBubble(t *testing.T, sj *scaledjobv1.ScaledJob, test func(ctx context.Context, w *fakeEnv)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) { test(t.Context(), newFakeEnv(t, sj)) })
}

// inBubbles is inBubble for each row of a table.
func inBubbles[R any](
	t *testing.T, sj *scaledjobv1.ScaledJob, rows map[string]R, test func(ctx context.Context, w *fakeEnv, row R),
) {
	t.Helper()
	bubble.Each(t, rows, func(t *testing.T, _ Gomega, row R) { test(t.Context(), newFakeEnv(t, sj), row) })
}

// cacheIsAt sets the resource version of the Job cache.
func (w *fakeEnv) cacheIsAt(version string) { w.Expect(w.store.Replace(nil, version)).To(Succeed()) }

func (w *fakeEnv) put(sj *scaledjobv1.ScaledJob) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	stored := sj.DeepCopy()
	w.server.next(stored)
	w.scaledJobs[client.ObjectKeyFromObject(sj)] = stored
}

func (w *fakeEnv) remove(key types.NamespacedName) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.scaledJobs, key)
}

func (w *fakeEnv) get(key types.NamespacedName) (*scaledjobv1.ScaledJob, error) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if found := w.scaledJobs[key]; found != nil {
		return found.DeepCopy(), nil
	}
	return nil, errNoScaledJob
}

func (w *fakeEnv) change(key types.NamespacedName, change func(*scaledjobv1.ScaledJob)) error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	found := w.scaledJobs[key]
	if found == nil {
		return errNoScaledJob
	}
	changed := found.DeepCopy()
	change(changed)
	w.server.next(changed)
	w.scaledJobs[key] = changed
	return nil
}

func (w *fakeEnv) job(name string) (*batchv1.Job, error) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if found := w.server.jobs[name]; found != nil {
		return found.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(jobResource, name)
}

// envClient reads the Jobs that the cache shows, and writes to the API server.
type envClient struct {
	client.WithWatch // what nobody calls

	w *fakeEnv
}

func (c envClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	job, err := c.w.job(key.Name)
	if err != nil {
		return err
	}
	if c.w.hidden(job) {
		return apierrors.NewNotFound(jobResource, key.Name)
	}
	job.DeepCopyInto(object.(*batchv1.Job))
	return nil
}

// Create creates a Job with a UID, like the API server.
func (c envClient) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	w, job := c.w, object.(*batchv1.Job)
	if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		return w.onDryRun()
	}
	w.mu.Lock()
	w.created = append(w.created, job.Name)
	w.mu.Unlock()
	return w.onCreate(ctx, job, func() error {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		if w.server.jobs[job.Name] != nil {
			return apierrors.NewAlreadyExists(jobResource, job.Name)
		}
		job.UID = types.UID("uid of " + job.Name)
		job.CreationTimestamp = metav1.Now().Rfc3339Copy()
		w.server.store(job)
		return nil
	})
}

func (c envClient) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	expected := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
	if err := c.w.onDelete(ctx, object, expected); err != nil {
		return err
	}
	job, err := c.w.job(object.GetName())
	switch {
	case err != nil:
		return err
	case *expected.UID != job.UID || expected.ResourceVersion != nil && *expected.ResourceVersion != job.ResourceVersion:
		return apierrors.NewConflict(jobResource, job.Name, errors.New("it has changed"))
	}
	c.w.delete(ctx, job.Name)
	return nil
}

func (c envClient) Status() client.SubResourceWriter { return envStatus{w: c.w} }

func (c envClient) SubResource(string) client.SubResourceClient { return envStatus{w: c.w} }

type envStatus struct {
	client.SubResourceClient // what nobody calls

	w *fakeEnv
}

func (s envStatus) Apply(_ context.Context, intent runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	if err := s.w.onApply(); err != nil {
		return err
	}
	asked, err := statusOf(intent)
	if err != nil {
		return err
	}
	s.w.mu.Lock()
	s.w.applied++
	s.w.mu.Unlock()
	key, answer := client.ObjectKeyFromObject(asked), intent.(client.Object)
	if err := s.w.change(key, func(sj *scaledjobv1.ScaledJob) { sj.Status = asked.Status }); err != nil {
		return err
	}
	if stored, err := s.w.get(key); err == nil {
		answer.SetResourceVersion(stored.ResourceVersion)
		answer.SetDeletionTimestamp(stored.DeletionTimestamp)
	}
	s.w.onAnswer(answer)
	return nil
}

// envReader reads from the API server.
type envReader struct {
	client.Reader // what nobody calls

	w *fakeEnv
}

// Get reads a Job, or the metadata of a ScaledJob.
func (r envReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if into, is := object.(*batchv1.Job); is {
		job, err := r.w.job(key.Name)
		if err != nil {
			return err
		}
		job.DeepCopyInto(into)
		return r.w.onLiveGet(object)
	}
	sj, err := r.w.get(key)
	if err != nil {
		return err
	}
	sj.ObjectMeta.DeepCopyInto(&object.(*metav1.PartialObjectMetadata).ObjectMeta)
	return r.w.onLiveGet(object)
}

// List finds no Jobs of previous leaders.
func (envReader) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// envCache is what the cache shows of a fakeEnv.
type envCache struct{ *fakeEnv }

func (c envCache) ScaledJob(key types.NamespacedName) (*scaledjob.ScaledJob, error) {
	stored, err := c.get(key)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	found := decoded(stored)
	found.SpecErr, found.StatusErr = c.specErr, c.statusErr
	slim, err := scaledjob.Slim(&found)
	if err != nil {
		return nil, err
	}
	return c.share(slim.(*scaledjob.ScaledJob)), nil
}

func (c envCache) Owned(namespace string, owner types.UID) (owned []*batchv1.Job, err error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, job := range c.server.jobs {
		if job.Namespace == namespace && jobs.ControllerUID(job) == owner && !c.hidden(job) {
			owned = append(owned, job.DeepCopy())
		}
	}
	return owned, c.onList()
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

func requestOf(key types.NamespacedName) ctrl.Request { return ctrl.Request{NamespacedName: key} }

// reconcile runs a reconcile that must succeed, and must set a priority.
func (w *fakeEnv) reconcile(ctx context.Context) ctrl.Result {
	result, err := w.r.Reconcile(ctx, requestOf(emails))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.Priority).NotTo(BeNil())
	return result
}

// reconcileAt is reconcile with this many messages that wait.
func (w *fakeEnv) reconcileAt(ctx context.Context, depth int64) ctrl.Result {
	w.queues.SetDepth(emailQueue, depth)
	return w.reconcile(ctx)
}

// reconcileAfter is reconcile after this time.
func (w *fakeEnv) reconcileAfter(ctx context.Context, wait time.Duration) ctrl.Result {
	time.Sleep(wait)
	return w.reconcile(ctx)
}

// awaitNumbers reconciles when the status may be written, of which only numbers or messages have changed.
func (w *fakeEnv) awaitNumbers(ctx context.Context) { w.reconcileAfter(ctx, lateStatus) }

// reconcileFails runs a reconcile that must fail, and returns its error.
func (w *fakeEnv) reconcileFails(ctx context.Context) error {
	result, err := w.r.Reconcile(ctx, requestOf(emails))
	w.Expect(err).To(HaveOccurred())
	w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityNormal)))
	return err
}

func (w *fakeEnv) jobs(context.Context) (all []batchv1.Job) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.server.jobs)) {
		all = append(all, *w.server.jobs[name].DeepCopy())
	}
	return all
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

func (w *fakeEnv) scaledJob(context.Context) *scaledjobv1.ScaledJob {
	sj, err := w.get(emails)
	w.Expect(err).NotTo(HaveOccurred())
	return sj
}

// edit changes the spec and increments the generation.
func (w *fakeEnv) edit(_ context.Context, change func(*scaledjobv1.ScaledJobSpec)) {
	w.Expect(w.change(emails, func(sj *scaledjobv1.ScaledJob) {
		change(&sj.Spec)
		sj.Generation++
	})).To(Succeed())
}

// finish makes a Job finish, like the Job controller.
func (w *fakeEnv) finish(ctx context.Context, name string, kind batchv1.JobConditionType) {
	w.finishAt(ctx, name, kind, time.Now())
}

// finishAt is finish for a Job that ended at another time.
func (w *fakeEnv) finishAt(_ context.Context, name string, kind batchv1.JobConditionType, at time.Time) {
	w.server.update(name, func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Truncate(time.Second)),
		}}
	})
}

// delete deletes a Job, like a user.
func (w *fakeEnv) delete(_ context.Context, name string) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.remove(name)
}

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
	claimed  *auth.Endpoint
	refusal  error
	rejected *failure.Error
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

func (f *fakeServers) CertificatesExpire(auth.Endpoint) (never time.Time) { return never }

func (f *fakeServers) Replica(auth.Endpoint) bool { return false }

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

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

// fakeQueues serves the content that a test sets, by key. Other keys are empty. It is safe for concurrent use.
type fakeQueues struct {
	mu     sync.Mutex
	counts map[string]queue.Count
	errs   map[string]error
	// oldest are the times that Oldest returns, after oldestTakes, and asked is how often it was called.
	oldest      []time.Time
	oldestTakes time.Duration
	asked       int
}

// SetDepth sets the number of waiting messages of key.
func (f *fakeQueues) SetDepth(key string, depth int64) { f.SetCount(key, queue.Count{Waiting: depth}) }

// SetCount sets the content of key.
func (f *fakeQueues) SetCount(key string, count queue.Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[key] = count
	delete(f.errs, key)
}

// SetError makes reads of key fail with err.
func (f *fakeQueues) SetError(key string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[key] = err
}

// Observe returns the content of the queues of source, or the error of ctx.
func (f *fakeQueues) Observe(ctx context.Context, source queue.Source) ([]queue.Count, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var counts []queue.Count
	for _, each := range source.Queues {
		if err := f.errs[each.Key]; err != nil {
			return nil, err
		}
		counts = append(counts, f.counts[each.Key])
	}
	return counts, nil
}

// Oldest returns the times that a test sets, or what was before if it sets none.
func (f *fakeQueues) Oldest(_ context.Context, _ queue.Source, _ []queue.Count, before []time.Time) ([]time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	time.Sleep(f.oldestTakes)
	if f.oldest == nil {
		return before, false
	}
	return f.oldest, true
}
