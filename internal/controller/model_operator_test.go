// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

var (
	errKilled  = errors.New("the process has been killed")
	errUnheard = errors.New("the create has no answer")
)

// weakness is the safeguard that an operator of the negative control lacks.
type weakness struct {
	// gateOpen makes it count Jobs while its cache lags behind. namesAtRandom gives a create that is sent again another
	// name.
	gateOpen, namesAtRandom bool
}

// operatorProcess is one process of the operator: a Reconciler with its memory and gate, and caches that lag behind the
// API server.
type operatorProcess struct {
	r       *Reconciler
	server  *apiServer
	watcher *fakeWatcher
	weak    weakness
	// dead is true if the process has ended. retired is true if it has ended or another process leads.
	dead, retired bool
	// tookOver is true if the process knows the Jobs of previous leaders.
	tookOver bool

	// store is the Job cache, which shows the first jobsSeen changes of Jobs. shown is the cached ScaledJob, after its
	// first sjSeen changes.
	store    toolscache.Store
	stores   *jobcontrol.Stores
	jobsSeen int
	sjSeen   int

	// fates are the fates of the next creates, used in turn. listFails and liveFails make reads from the cache and from
	// the API server fail.
	fates                []fate
	listFails, liveFails bool
	// reading is the ScaledJob of the current reconcile. depth returns its depth.
	reading *scaledjobv1.ScaledJob
	depth   func(*operatorProcess) (int64, error)
}

// newOperatorProcess starts a process whose caches show the given numbers of changes.
func newOperatorProcess(
	server *apiServer, jobsSeen, sjSeen int, weak weakness, depth func(*operatorProcess) (int64, error),
) *operatorProcess {
	p := &operatorProcess{
		server: server,
		depth:  depth,
		stores: &jobcontrol.Stores{},
		weak:   weak,
		sjSeen: sjSeen,
		watcher: &fakeWatcher{state: keyspace.State{
			Verdict: verify.Verdict{Reason: verify.ReasonSubscribed}, Since: time.Now(),
		}},
	}
	p.store = p.stores.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
	p.showJobs(jobsSeen)
	gateStores := p.stores
	if weak.gateOpen {
		gateStores = &jobcontrol.Stores{}
		store := gateStores.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
		_ = store.Replace(nil, strconv.Itoa(1<<60))
	}
	cached, live := &cachedClient{p: p}, &liveReader{p: p}
	p.r = &Reconciler{
		Cache:    p,
		Client:   cached,
		Live:     live,
		Servers:  &fakeServers{},
		Queues:   p,
		Watcher:  p.watcher,
		Gate:     jobcontrol.NewGate(cached, live, gateStores, nil),
		Recorder: &eventLog{},
		Metrics:  metrics.New(prometheus.NewRegistry()),
		Statuses: &report.StatusWriter{Client: cached},
		Wakes:    enqueue.NewWakes(),
		Leads:    func() bool { return true },
	}
	return p
}

// takeOver lists the Jobs of previous leaders, and reports whether reconciles may run.
func (p *operatorProcess) takeOver(ctx context.Context) bool {
	if p.tookOver {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	p.tookOver = p.r.Gate.Takeover().WaitForSync(ctx) == nil
	return p.tookOver
}

// showJobs makes the Job cache show the first changes of the history.
func (p *operatorProcess) showJobs(changes int) {
	p.jobsSeen = changes
	shown := map[string]any{}
	for _, c := range p.server.jobChanges[:changes] {
		if c.job == nil {
			delete(shown, c.name)
			continue
		}
		slim, _ := jobs.Slim(c.job)
		shown[c.name] = slim
	}
	list := make([]any, 0, len(shown))
	for _, job := range shown {
		list = append(list, job)
	}
	_ = p.store.Replace(list, strconv.FormatInt(p.server.versionAfter(changes), 10)) // It never fails.
}

// catchUp makes the caches show more changes, up to all of them.
func (p *operatorProcess) catchUp(jobChanges, sjChanges int) {
	p.sjSeen += min(sjChanges, len(p.server.sjChanges)-p.sjSeen)
	if more := min(jobChanges, len(p.server.jobChanges)-p.jobsSeen); more > 0 {
		p.showJobs(p.jobsSeen + more)
	}
}

// shownScaledJob returns the cached ScaledJob; nil if the cache shows none.
func (p *operatorProcess) shownScaledJob() *scaledjobv1.ScaledJob {
	if p.sjSeen == 0 {
		return nil
	}
	return p.server.sjChanges[p.sjSeen-1]
}

// ScaledJob returns what the cache shows, for the reconcile that begins.
func (p *operatorProcess) ScaledJob(types.NamespacedName) (*scaledjob.ScaledJob, error) {
	shown := p.shownScaledJob()
	if shown == nil {
		return nil, nil
	}
	p.reading = shown
	return new(decoded(shown)), nil
}

// Owned lists Jobs in a fixed order, so that runs are repeatable.
func (p *operatorProcess) Owned(namespace string, owner types.UID) ([]*batchv1.Job, error) {
	if p.listFails {
		return nil, errUnheard
	}
	owned, err := p.stores.Owned(namespace, owner)
	slices.SortFunc(owned, func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	return owned, err
}

// Observe reads the depth for the current reconcile.
func (p *operatorProcess) Observe(context.Context, queue.Source) ([]queue.Count, error) {
	depth, err := p.depth(p)
	return []queue.Count{{Waiting: depth}}, err
}

// Oldest knows of no message since when it is outstanding.
func (p *operatorProcess) Oldest(_ context.Context, _ queue.Source, _ []queue.Count, before []time.Time) ([]time.Time, bool) {
	return before, true
}

// fate determines the result of a create.
type fate struct {
	// answer is the error that the process receives; nil for the answer of the API server.
	answer error
	// hangs delays the answer until the timeout of the create. If kills is true, the process is killed while it waits.
	hangs, kills bool
	// lands is how long the API server takes to carry out a create after the sender has given up. Negative means never.
	lands time.Duration
}

func (f fate) String() string {
	return fmt.Sprintf("{answer: %v, hangs: %t, kills: %t, lands: %v}", f.answer, f.hangs, f.kills, f.lands)
}

// unheard reports whether the process gets no answer that shows the result of the create.
func (f fate) unheard() bool {
	return f.kills || f.hangs || errors.Is(f.answer, errUnheard) || apierrors.IsInternalError(f.answer)
}

// cachedClient reads from the caches and writes to the API server.
type cachedClient struct {
	client.Client

	p *operatorProcess
}

// Get reads a Job from the cache.
func (c *cachedClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	shown, exists, _ := c.p.store.GetByKey(key.String())
	if !exists {
		return apierrors.NewNotFound(batchv1.Resource("jobs"), key.Name)
	}
	shown.(*batchv1.Job).DeepCopyInto(object.(*batchv1.Job))
	return nil
}

// Create applies the next fate to a create.
func (c *cachedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	p, job := c.p, object.(*batchv1.Job)
	p.server.mu.Lock()
	dead := p.dead
	p.server.mu.Unlock()
	switch {
	case dead:
		return errKilled
	case len((&client.CreateOptions{}).ApplyOptions(options).DryRun) > 0:
		return nil
	}
	ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
	its := p.fateOf(ordinal)
	if its.hangs {
		<-ctx.Done()
	}
	takeTurn(ordinal)
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.server.carryOutLate()
	if p.weak.namesAtRandom {
		job.Name = fmt.Sprintf("emails-%d", p.server.version)
	}
	return p.send(job, its)
}

func (p *operatorProcess) fateOf(ordinal int64) fate {
	if len(p.fates) == 0 {
		return fate{}
	}
	return p.fates[ordinal%int64(len(p.fates))]
}

// takeTurn waits for a time that depends on the ordinal, so that parallel creates arrive in the same order in each run.
func takeTurn(ordinal int64) {
	now := time.Now()
	time.Sleep(now.Truncate(time.Millisecond).Add(time.Millisecond + time.Duration(ordinal%1000)*time.Microsecond).Sub(now))
}

// send carries out a create now, later or never, and returns the answer.
func (p *operatorProcess) send(job *batchv1.Job, its fate) error {
	if its.kills {
		p.dead = true
		p.server.retire(p)
	}
	if !p.dead && !its.unheard() {
		if its.answer != nil {
			return its.answer
		}
		return p.server.create(job)
	}
	switch {
	case its.lands == 0:
		_ = p.server.create(job.DeepCopy()) // The answer gets lost.
	case its.lands > 0 && (!p.retired || !p.server.deleted[jobs.ControllerUID(job)]): // See apiServer.protected.
		p.server.late = append(p.server.late, lateCreate{job.DeepCopy(), time.Now().Add(its.lands), p})
	}
	if p.dead {
		return errKilled
	}
	return cmp.Or(its.answer, context.DeadlineExceeded)
}

// Delete deletes a Job, and records a fault if it may not be deleted.
func (c *cachedClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	p, s := c.p, c.p.server
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[object.GetName()]
	switch {
	case p.dead:
		return errKilled
	case s.protected():
		return apierrors.NewTooManyRequests("another time", 1)
	case asked.Preconditions == nil || asked.Preconditions.UID == nil || asked.PropagationPolicy == nil ||
		*asked.PropagationPolicy != metav1.DeletePropagationBackground:
		s.faults = append(s.faults, fmt.Errorf("a delete of %s that may delete another Job or orphan Pods", object.GetName()))
	case job == nil:
		return apierrors.NewNotFound(batchv1.Resource("jobs"), object.GetName())
	case job.UID != *asked.Preconditions.UID:
		return apierrors.NewConflict(batchv1.Resource("jobs"), job.Name, errors.New("another UID"))
	case !jobs.Finished(job):
		s.faults = append(s.faults, fmt.Errorf("a delete of the unfinished Job %s", job.Name))
	}
	s.prune(job.Name)
	return nil
}

// Status returns the writer of the status.
func (c *cachedClient) Status() client.SubResourceWriter { return &statusWriter{p: c.p} }

type statusWriter struct {
	client.SubResourceWriter

	p *operatorProcess
}

// statusOf returns a ScaledJob with the status of an apply.
func statusOf(intent runtime.ApplyConfiguration) (*scaledjobv1.ScaledJob, error) {
	content := intent.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()
	asked := &scaledjobv1.ScaledJob{}
	return asked, runtime.DefaultUnstructuredConverter.FromUnstructured(content, asked)
}

// Apply replaces the status, if the UID matches.
func (w *statusWriter) Apply(_ context.Context, intent runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	asked, err := statusOf(intent)
	if err != nil {
		return err
	}
	s := w.p.server
	resource := scaledjobv1.GroupVersion.WithResource("scaledjobs").GroupResource()
	switch {
	case w.p.dead:
		return errKilled
	case s.scaledJob == nil:
		return apierrors.NewNotFound(resource, asked.Name)
	case s.scaledJob.UID != asked.UID:
		return apierrors.NewConflict(resource, asked.Name, errors.New("another UID"))
	}
	sj := s.scaledJob.DeepCopy()
	sj.Status = asked.Status
	s.storeScaledJob(sj)
	return nil
}

// liveReader reads from the API server.
type liveReader struct {
	client.Reader

	p *operatorProcess
}

// Get reads a Job, or the metadata of the ScaledJob.
func (l *liveReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s := l.p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.p.liveFails || l.p.dead {
		return errUnheard
	}
	if job, isJob := object.(*batchv1.Job); isJob {
		if s.jobs[key.Name] == nil {
			return apierrors.NewNotFound(batchv1.Resource("jobs"), key.Name)
		}
		s.jobs[key.Name].DeepCopyInto(job)
		return nil
	}
	if s.scaledJob == nil {
		return apierrors.NewNotFound(scaledjobv1.GroupVersion.WithResource("scaledjobs").GroupResource(), key.Name)
	}
	s.scaledJob.ObjectMeta.DeepCopyInto(&object.(*metav1.PartialObjectMetadata).ObjectMeta)
	return nil
}

// List lists the metadata of all Jobs.
func (l *liveReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s := l.p.server
	if l.p.liveFails || l.p.dead {
		return errUnheard
	}
	found := list.(*metav1.PartialObjectMetadataList)
	for _, job := range s.jobs {
		found.Items = append(found.Items, metav1.PartialObjectMetadata{ObjectMeta: *job.ObjectMeta.DeepCopy()})
	}
	return nil
}
