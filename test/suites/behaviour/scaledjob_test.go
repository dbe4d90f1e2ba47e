// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// scaledJob is a ScaledJob that a test has to itself, in a namespace that it has to itself.
type scaledJob struct {
	*WithT
	*sjtest.Test
	*sjtest.ControlPlane

	t     *testing.T
	redis *redistest.Server
}

// newScaledJob returns a ScaledJob of the shared operator and the shared Redis server, which is yet to be created.
func newScaledJob(t *testing.T) *scaledJob {
	t.Helper()
	return newScaledJobOn(t, shared.redis)
}

// newScaledJobOn returns a ScaledJob of the shared operator and this Redis server.
func newScaledJobOn(t *testing.T, server *redistest.Server) *scaledJob {
	t.Helper()
	s := newScaledJobIn(t, shared.ControlPlane, server)
	s.Operator = shared.operator
	return s
}

// newScaledJobIn returns a ScaledJob that is yet to get its operator.
func newScaledJobIn(t *testing.T, in *sjtest.ControlPlane, server *redistest.Server) *scaledJob {
	t.Helper()
	namespace, err := in.Cluster.CreateNamespace(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return newScaledJobOf(t, in, server, namespace)
}

// newScaledJobOf returns a ScaledJob of this namespace.
func newScaledJobOf(t *testing.T, in *sjtest.ControlPlane, server *redistest.Server, namespace string) *scaledJob {
	t.Helper()
	return &scaledJob{
		WithT: NewWithT(t), ControlPlane: in, t: t, redis: server,
		Test: sjtest.NewTest(t, timeout, &sjtest.ScaledJob{
			API: in.API, Redis: server.Client(), Address: server.Addr(),
			Namespace: namespace, Name: "worker", Queue: namespace + ":queue",
		}),
	}
}

// another returns another ScaledJob with a queue of its own in the same namespace.
func (s *scaledJob) another(name string) *scaledJob {
	s.t.Helper()
	other := *s
	other.Test = sjtest.NewTest(s.t, timeout, s.Neighbour(name, s.Namespace+":"+name))
	return &other
}

// withServer returns the same ScaledJob with its queue on another Redis server.
func (s *scaledJob) withServer(server *redistest.Server) *scaledJob {
	other := s.another(s.Name)
	other.Queue, other.redis, other.Redis, other.Address = s.Queue, server, server.Client(), server.Addr()
	return other
}

// create creates the ScaledJob, one Job with a Pod to a message unless changes say otherwise. At the end of the test it
// is deleted.
func (s *scaledJob) create(changes ...sjtest.Change) {
	s.t.Helper()
	s.Create(append([]sjtest.Change{withPods}, changes...)...)
}

// withPods has Kubernetes run a Pod for each Job, and leaves the polling interval to its default.
func withPods(spec *scaledjobv1.ScaledJobSpec) {
	spec.PollingIntervalSeconds = 0
	spec.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "none"}}},
	}}}
}

// condition is the condition of this type, in words.
func (s *scaledJob) condition(kind string) string {
	s.t.Helper()
	c := s.Condition(kind)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s of generation %d: %s", c.Status, c.Reason, c.ObservedGeneration, c.Message)
}

// expectCondition waits until the condition is this, about the current spec.
func (s *scaledJob) expectCondition(kind string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	s.Eventually(s.condition).WithArguments(kind).
		Should(HavePrefix("%s %s of generation %d: ", status, reason, s.Get().Generation))
}

// empty takes all messages out of the queue.
func (s *scaledJob) empty() {
	s.t.Helper()
	s.Expect(s.redis.Client().Del(s.t.Context(), s.Queue).Err()).To(Succeed())
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeZero())))
}

// awaitSubscription returns when the operator is subscribed to the queue, once. From then on a push needs no resync to
// be noticed.
func (s *scaledJob) awaitSubscription() {
	s.t.Helper()
	s.Eventually(s.Subscribers).Should(BeEquivalentTo(1))
}

// jobs are the Jobs of the namespace, whoever made them.
func (s *scaledJob) jobs() []*batchv1.Job {
	s.t.Helper()
	return must.Get(s.AllJobs.In(s.Namespace))(s)
}

// jobsEver is how many Jobs the namespace has seen, those that are gone included.
func (s *scaledJob) jobsEver() int { return s.AllJobs.EverIn(s.Namespace) }

// expectJobsEver waits until the namespace has seen this many Jobs, and makes sure that it stays so.
func (s *scaledJob) expectJobsEver(count int) {
	s.t.Helper()
	s.Eventually(s.jobsEver).Should(Equal(count))
	s.awaitResyncs()
	s.Expect(s.jobsEver()).To(Equal(count))
}

// awaitResyncs returns after three more reconciles of the ScaledJob. For those it sets the least polling interval.
func (s *scaledJob) awaitResyncs() {
	s.t.Helper()
	s.Update(sjtest.Polling(1))
	s.AwaitReconciles(3)
}

// awaitQuiet returns when the ScaledJob has not been reconciled for a while, and nothing but a resync is left to have
// it reconciled.
func (s *scaledJob) awaitQuiet() {
	s.t.Helper()
	s.AwaitQuiet(quietPeriod)
}

// job waits for a Job that is neither finished nor going, and returns one.
func (s *scaledJob) job() *batchv1.Job {
	s.t.Helper()
	var found *batchv1.Job
	s.Eventually(func() *batchv1.Job {
		for _, job := range s.jobs() {
			if !hasFinished(job) && job.DeletionTimestamp == nil {
				found = job
			}
		}
		return found
	}).ShouldNot(BeNil())
	return found
}

// succeed lets the Pod of the Job succeed, and waits for the Job to.
func (s *scaledJob) succeed(job *batchv1.Job) {
	s.t.Helper()
	s.end(job, cluster.PodSucceedAfter)
}

// fail lets the Pod of the Job fail, and waits for the Job to. Its backoffLimit must be 0.
func (s *scaledJob) fail(job *batchv1.Job) {
	s.t.Helper()
	s.end(job, cluster.PodFailAfter)
}

func (s *scaledJob) end(job *batchv1.Job, annotation string) {
	s.t.Helper()
	s.Eventually(s.podsOf).WithArguments(job).Should(ConsistOf(HaveField("Status.Phase", corev1.PodRunning)))
	s.Expect(cluster.Now(s.t.Context(), s.API, &s.podsOf(job)[0], annotation)).To(Succeed())
	s.Eventually(func() bool {
		current := &batchv1.Job{}
		err := s.API.Get(s.t.Context(), client.ObjectKeyFromObject(job), current)
		return err != nil || hasFinished(current)
	}).Should(BeTrue())
}

func (s *scaledJob) podsOf(job *batchv1.Job) []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.API.List(s.t.Context(), &pods,
		client.InNamespace(s.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
	return pods.Items
}

func hasFinished(job *batchv1.Job) bool { return endCondition(job) != nil }

// endCondition is the condition that ended the Job, nil while it has not.
func endCondition(job *batchv1.Job) *batchv1.JobCondition {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &job.Status.Conditions[i]
}

// events is how often an event of this reason has happened to the ScaledJob.
func (s *scaledJob) events(reason string) int {
	s.t.Helper()
	all := must.Get(s.Events(s.t.Context()))(s)
	count := 0
	for _, event := range all {
		if event.Reason == reason {
			count += sjtest.Times(&event)
		}
	}
	return count
}

// log is what the operator has logged about the namespace.
func (s *scaledJob) log() string { return s.Operator.LogsAbout(s.Namespace) }

// newNamespace returns a namespace that is deleted after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	return shared.Cluster.NewNamespace(t, "test")
}

// onceByEvents is a spec by which a Job has one Pod, which is not tried again, and the operator hears of messages by
// notifications alone.
func onceByEvents(spec *scaledjobv1.ScaledJobSpec) {
	spec.PollingIntervalSeconds = sjtest.Never
	spec.JobTemplate.Spec.BackoffLimit = new(int32)
	spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
}

// kubectl runs kubectl in the namespace and returns what it prints.
func (s *scaledJob) kubectl(args ...string) string {
	s.t.Helper()
	return must.Get(s.Cluster.Kubectl(s.t.Context(), append(args, "--namespace="+s.Namespace)...))(s)
}

// edit changes the spec, and returns when the operator has acted on the change.
func (s *scaledJob) edit(changes ...sjtest.Change) {
	s.t.Helper()
	s.Update(changes...)
	generation := s.Get().Generation
	s.Eventually(s.Status).Should(HaveField("ObservedGeneration", BeNumerically(">=", generation)))
}

// unfinishedJobs are those of the ScaledJob that have not ended.
func (s *scaledJob) unfinishedJobs() []*batchv1.Job {
	s.t.Helper()
	var running []*batchv1.Job
	for _, job := range s.jobs() {
		if !hasFinished(job) {
			running = append(running, job)
		}
	}
	return running
}

// pods are the Pods of the Jobs of the ScaledJob.
func (s *scaledJob) pods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.API.List(s.t.Context(), &pods, s.ours()...)).To(Succeed())
	return pods.Items
}

func (s *scaledJob) ours() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{scaledjobv1.LabelScaledJob: s.Name}}
}

// startJob pushes a message and returns the Job that is made for it.
func (s *scaledJob) startJob() *batchv1.Job {
	s.t.Helper()
	before := s.jobs()
	s.PushTogether(1)
	var started *batchv1.Job
	s.Eventually(func() *batchv1.Job {
		for _, job := range s.jobs() {
			if !slices.ContainsFunc(before, func(old *batchv1.Job) bool { return old.UID == job.UID }) {
				started = job
			}
		}
		return started
	}).ShouldNot(BeNil())
	return started
}

// workers simulate the containers of the Pods of a ScaledJob, until the test ends.
type workers struct {
	admin client.Client
	redis *goredis.Client
	queue string
	batch int // how many messages one takes
}

// startWorkers starts the workers.
func (s *scaledJob) startWorkers(batch int) {
	s.t.Helper()
	changes := must.Get(s.API.Watch(s.t.Context(), &corev1.PodList{}, s.ours()...))(s)
	staff := &workers{admin: s.API, redis: s.redis.Client(), queue: s.Queue, batch: batch}
	done := make(chan error, 1)
	go func() { done <- staff.run(s.t.Context(), changes) }()
	s.t.Cleanup(func() { s.Expect(<-done).To(Succeed()) })
}

// run has a worker for each Pod that comes to run.
func (w *workers) run(ctx context.Context, changes watch.Interface) error {
	started := map[types.UID]bool{}
	var group errgroup.Group
	for change := range changes.ResultChan() {
		pod, isPod := change.Object.(*corev1.Pod)
		if !isPod || started[pod.UID] || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		started[pod.UID] = true
		group.Go(func() error {
			if err := w.work(ctx, pod); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}

// work does what the container of the Pod would do. Removing the messages is its last act.
func (w *workers) work(ctx context.Context, pod *corev1.Pod) error {
	err := w.redis.RPopCount(ctx, w.queue, w.batch).Err()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return fmt.Errorf("removing messages: %w", err)
	}
	return cluster.Now(ctx, w.admin, pod, cluster.PodSucceedAfter)
}
