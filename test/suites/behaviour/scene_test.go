// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// never is a pollingIntervalSeconds that no test lives to see the end of.
const never = 3600

// scaledJob is what a test has to itself: a namespace, a ScaledJob in it, and the
// queue that this names.
type scaledJob struct {
	*WithT
	*controlPlane

	t         *testing.T
	operator  *operator.Operator
	redis     *redistest.Server
	namespace string
	name      string
	queue     string
	// watch follows the Jobs of the namespace, nil where newScaledJob has not been asked for it.
	watch *jobWatch
}

// newScaledJob is a scene of the shared operator and the shared Redis server.
func newScaledJob(t *testing.T) *scaledJob {
	t.Helper()
	return newScaledJobOn(t, shared.redis)
}

// newScaledJobOn is a scene of the shared operator and this Redis server.
func newScaledJobOn(t *testing.T, server *redistest.Server) *scaledJob {
	t.Helper()
	s := newScaledJobIn(t, shared.controlPlane, server)
	s.operator = shared.operator
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the operator logged about this namespace:\n%s", strings.Join(s.log(), "\n"))
		}
	})
	return s
}

// newScaledJobIn is a scene that has yet to get its operator.
func newScaledJobIn(t *testing.T, in *controlPlane, server *redistest.Server) *scaledJob {
	t.Helper()
	namespace, err := in.cluster.CreateNamespace(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return &scaledJob{
		WithT: NewWithT(t), controlPlane: in, t: t, redis: server,
		namespace: namespace, name: "worker", queue: namespace + ":queue",
	}
}

// beside is another ScaledJob with a queue of its own in the same namespace.
func (s *scaledJob) beside(name string) *scaledJob {
	other := *s
	other.name, other.queue = name, s.namespace+":"+name
	return &other
}

// on is the same scene with the queue on another Redis server.
func (s *scaledJob) on(server *redistest.Server) *scaledJob {
	other := *s
	other.redis = server
	return &other
}

// create makes the ScaledJob, one Job to a message unless changes say
// otherwise. At the end of the test it is deleted.
func (s *scaledJob) create(changes ...func(*scaledjobv1.ScaledJobSpec)) {
	s.t.Helper()
	sj := &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:    s.queue,
			RedisAddress: s.redis.Addr(),
			Threshold:    1,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "none"}}},
			}}},
		},
	}
	for _, change := range changes {
		change(&sj.Spec)
	}
	s.Expect(s.admin.Create(s.t.Context(), sj)).To(Succeed())
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(s.t.Context())
		s.Expect(client.IgnoreNotFound(s.admin.Delete(ctx, s.reference()))).To(Succeed())
	})
}

// polling sets how often the queue is looked at.
func polling(seconds int32) func(*scaledjobv1.ScaledJobSpec) {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = seconds }
}

// atMost sets maxReplicas.
func atMost(jobs int32) func(*scaledjobv1.ScaledJobSpec) {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = &jobs }
}

// update changes the spec of the ScaledJob.
func (s *scaledJob) update(change func(*scaledjobv1.ScaledJobSpec)) {
	s.t.Helper()
	sj := s.get()
	before := sj.DeepCopy()
	change(&sj.Spec)
	s.Expect(s.admin.Patch(s.t.Context(), sj, client.MergeFrom(before))).To(Succeed())
}

// reference names the ScaledJob.
func (s *scaledJob) reference() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
}

func (s *scaledJob) get() *scaledjobv1.ScaledJob {
	s.t.Helper()
	sj := s.reference()
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(sj), sj)).To(Succeed())
	return sj
}

func (s *scaledJob) status() scaledjobv1.ScaledJobStatus {
	s.t.Helper()
	return s.get().Status
}

// condition is the condition of this type, in words.
func (s *scaledJob) condition(kind string) string {
	s.t.Helper()
	for _, c := range s.status().Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s of generation %d: %s", c.Status, c.Reason, c.ObservedGeneration, c.Message)
		}
	}
	return "none"
}

// expectCondition waits until the condition is this, about the current spec.
func (s *scaledJob) expectCondition(kind string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	s.Eventually(s.condition).WithArguments(kind).
		Should(HavePrefix("%s %s of generation %d: ", status, reason, s.get().Generation))
}

// push adds messages to the queue, each by a command of its own.
func (s *scaledJob) push(messages int) {
	s.t.Helper()
	_, err := s.redis.Client().Pipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
		for i := range messages {
			pipe.LPush(s.t.Context(), s.queue, i)
		}
		return nil
	})
	s.Expect(err).NotTo(HaveOccurred())
}

// empty takes all messages out of the queue.
func (s *scaledJob) empty() {
	s.t.Helper()
	s.Expect(s.redis.Client().Del(s.t.Context(), s.queue).Err()).To(Succeed())
	s.Eventually(s.status).Should(HaveField("QueueDepth", HaveValue(BeZero())))
}

// subscribers is how many connections listen to the queue.
func (s *scaledJob) subscribers() int64 {
	s.t.Helper()
	channel := "__keyspace@0__:" + s.queue
	counts, err := s.redis.Client().PubSubNumSub(s.t.Context(), channel).Result()
	s.Expect(err).NotTo(HaveOccurred())
	return counts[channel]
}

// awaitSubscription returns when the operator listens to the queue. From then on
// a push needs no resync to be noticed.
func (s *scaledJob) awaitSubscription() {
	s.t.Helper()
	s.Eventually(s.subscribers).Should(BeEquivalentTo(1))
}

// jobs are the Jobs of the namespace, whoever made them.
func (s *scaledJob) jobs() []*batchv1.Job {
	s.t.Helper()
	jobs, err := s.allJobs.In(s.namespace)
	s.Expect(err).NotTo(HaveOccurred())
	return jobs
}

// jobsEver is how many Jobs the namespace has seen, those that are gone
// included.
func (s *scaledJob) jobsEver() int { return s.allJobs.EverIn(s.namespace) }

// expectJobsEver waits until the namespace has seen this many Jobs, and makes
// sure that it stays so.
func (s *scaledJob) expectJobsEver(count int) {
	s.t.Helper()
	s.Eventually(s.jobsEver).Should(Equal(count))
	s.awaitResyncs()
	s.Expect(s.jobsEver()).To(Equal(count))
}

// awaitResyncs returns after three more passes over the ScaledJob. For those it
// sets the least polling interval.
func (s *scaledJob) awaitResyncs() {
	s.t.Helper()
	s.update(polling(1))
	const passes = 3
	before := s.passes()
	s.Eventually(s.passes).Should(BeNumerically(">=", before+passes))
}

// awaitQuiet returns when no pass over the ScaledJob has come for a while, and no
// check of its template waits for its turn. Where the resync never comes, the next
// pass is one that somebody asks for.
func (s *scaledJob) awaitQuiet() {
	s.t.Helper()
	s.Eventually(func() bool {
		sj := s.get()
		judged := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionTemplateValid)
		return judged != nil && judged.Status != metav1.ConditionUnknown && judged.ObservedGeneration == sj.Generation
	}).Should(BeTrue(), "the template is judged")
	last, since := s.passes(), time.Now()
	s.Eventually(func() time.Duration {
		if now := s.passes(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since)
	}).Should(BeNumerically(">", quietPeriod))
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

// fail lets the Pod of the Job fail, and waits for the Job to. Its backoffLimit
// must be 0.
func (s *scaledJob) fail(job *batchv1.Job) {
	s.t.Helper()
	s.end(job, cluster.PodFailAfter)
}

func (s *scaledJob) end(job *batchv1.Job, annotation string) {
	s.t.Helper()
	s.Eventually(s.podsOf).WithArguments(job).Should(ConsistOf(HaveField("Status.Phase", corev1.PodRunning)))
	s.Expect(endPod(s.t.Context(), s.admin, &s.podsOf(job)[0], annotation)).To(Succeed())
	s.Eventually(func() bool {
		current := &batchv1.Job{}
		err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(job), current)
		return err != nil || hasFinished(current)
	}).Should(BeTrue())
}

func (s *scaledJob) podsOf(job *batchv1.Job) []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.admin.List(s.t.Context(), &pods,
		client.InNamespace(s.namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
	return pods.Items
}

func hasFinished(job *batchv1.Job) bool { return endCondition(job) != nil }

// finishedAt is when the Job succeeded or failed, and zero before.
func finishedAt(job *batchv1.Job) time.Time {
	if condition := endCondition(job); condition != nil {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

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
	var list eventsv1.EventList
	s.Expect(s.admin.List(s.t.Context(), &list, client.InNamespace(s.namespace))).To(Succeed())
	count := 0
	for _, event := range list.Items {
		if event.Regarding.Name != s.name || event.Reason != reason {
			continue
		}
		count++
		if event.Series != nil {
			count += int(event.Series.Count) - 1
		}
	}
	return count
}

// log are the lines that the operator has logged about the namespace.
func (s *scaledJob) log() []string {
	var lines []string
	for line := range strings.Lines(s.operator.Logs()) {
		if strings.Contains(line, s.namespace) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
