// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// never is a pollingIntervalSeconds that no test lives to see the end of.
const never = 3600

// scene is a ScaledJob with a queue of its own, in a namespace that the test
// has to itself, and a witness of all Jobs there.
type scene struct {
	*WithT
	t         *testing.T
	witness   *witness
	namespace string
	name      string
	queue     string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	namespace := newNamespace(t)
	s := &scene{
		WithT: NewWithT(t), t: t, witness: summon(t, namespace),
		namespace: namespace, name: "worker", queue: namespace + ":queue",
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the operator logged about this namespace:\n%s", s.log())
		}
	})
	return s
}

// newNamespace returns a namespace that is deleted after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	name, err := control.CreateNamespace(t.Context(), "e2e")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Expect(admin.Delete(context.WithoutCancel(t.Context()), namespace)).To(Succeed())
	})
	return name
}

// beside is another ScaledJob with a queue of its own in the same namespace.
func (s *scene) beside(name string) *scene {
	other := *s
	other.name, other.queue = name, s.namespace+":"+name
	return &other
}

// create makes the ScaledJob, one Job to a message unless changes say
// otherwise. It hears of messages by notifications alone.
func (s *scene) create(changes ...func(*scaledjobv1.ScaledJobSpec)) {
	s.t.Helper()
	sj := s.reference()
	sj.Spec = scaledjobv1.ScaledJobSpec{
		QueueName:              s.queue,
		RedisAddress:           redis.Addr(),
		Threshold:              1,
		PollingIntervalSeconds: never,
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			BackoffLimit: new(int32),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "worker", Image: "worker:1"}},
			}},
		}},
	}
	for _, change := range changes {
		change(&sj.Spec)
	}
	s.Expect(admin.Create(s.t.Context(), sj)).To(Succeed())
}

// atMost sets maxReplicas.
func atMost(jobs int32) func(*scaledjobv1.ScaledJobSpec) {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = &jobs }
}

// reference names the ScaledJob.
func (s *scene) reference() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
}

func (s *scene) get() *scaledjobv1.ScaledJob {
	s.t.Helper()
	sj := s.reference()
	s.Expect(admin.Get(s.t.Context(), client.ObjectKeyFromObject(sj), sj)).To(Succeed())
	return sj
}

func (s *scene) status() scaledjobv1.ScaledJobStatus {
	s.t.Helper()
	return s.get().Status
}

// kubectl runs kubectl in the namespace and returns what it prints.
func (s *scene) kubectl(args ...string) string {
	s.t.Helper()
	output, err := control.Kubectl(s.t.Context(), append(args, "--namespace="+s.namespace)...)
	s.Expect(err).NotTo(HaveOccurred())
	return output
}

// edit sets fields of the spec, and returns when the operator has acted on
// them.
func (s *scene) edit(fields map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": fields})
	s.Expect(err).NotTo(HaveOccurred())
	s.kubectl("patch", "scaledjob", s.name, "--type=merge", "--patch="+string(patch))
	s.awaitObserved()
}

// awaitObserved returns when the operator has acted on the current spec: it
// reports a generation after that.
func (s *scene) awaitObserved() {
	s.t.Helper()
	generation := s.get().Generation
	s.Eventually(s.status).Should(HaveField("ObservedGeneration", BeNumerically(">=", generation)))
}

// settle returns after three more passes over the ScaledJob, which do what is
// still due.
func (s *scene) settle() {
	s.t.Helper()
	const passes = 3
	for i := range passes {
		s.edit(map[string]any{"pollingIntervalSeconds": never - 1 - i})
	}
}

// push adds messages to the queue by one command.
func (s *scene) push(messages int) {
	s.t.Helper()
	values := make([]any, messages)
	for i := range values {
		values[i] = i
	}
	s.Expect(redis.Client().LPush(s.t.Context(), s.queue, values...).Err()).To(Succeed())
}

// remove takes a message off the queue.
func (s *scene) remove() {
	s.t.Helper()
	s.Expect(redis.Client().RPop(s.t.Context(), s.queue).Err()).To(Succeed())
}

// jobs are the Jobs of the ScaledJob, as the API server has them.
func (s *scene) jobs() []batchv1.Job {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(admin.List(s.t.Context(), &jobs, s.ours()...)).To(Succeed())
	return jobs.Items
}

// running are those that have not ended.
func (s *scene) running() []*batchv1.Job {
	s.t.Helper()
	var running []*batchv1.Job
	for _, job := range s.jobs() {
		if ending(&job) == nil {
			running = append(running, &job)
		}
	}
	return running
}

// pods are the Pods of the Jobs of the ScaledJob.
func (s *scene) pods() []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(admin.List(s.t.Context(), &pods, s.ours()...)).To(Succeed())
	return pods.Items
}

func (s *scene) ours() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{scaledjobv1.LabelScaledJob: s.name}}
}

// created is how many Jobs there have been in the namespace, by the witness,
// who has seen all that are there now.
func (s *scene) created() int {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(admin.List(s.t.Context(), &jobs, client.InNamespace(s.namespace))).To(Succeed())
	for _, job := range jobs.Items {
		s.Eventually(s.witness.lastOf).WithArguments(job.UID).ShouldNot(BeNil())
	}
	return s.witness.created()
}

// startJob pushes a message and returns the Job that is made for it.
func (s *scene) startJob() *batchv1.Job {
	s.t.Helper()
	before := s.jobs()
	s.push(1)
	var started *batchv1.Job
	s.Eventually(func() *batchv1.Job {
		for _, job := range s.jobs() {
			isOld := slices.ContainsFunc(before, func(old batchv1.Job) bool { return old.UID == job.UID })
			if !isOld {
				started = &job
			}
		}
		return started
	}).ShouldNot(BeNil())
	return started
}

// log are the lines that the operator has logged about the namespace.
func (s *scene) log() string {
	var lines []string
	for line := range strings.Lines(subject.Logs()) {
		if strings.Contains(line, s.namespace) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
