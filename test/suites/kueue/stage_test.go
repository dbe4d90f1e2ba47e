// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	kueuekit "miracle.dev/scaledjob-operator/test/kit/kueue"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

// Labels of Jobs that Kueue knows.
const (
	queueName     = "kueue.x-k8s.io/queue-name"
	priorityClass = "kueue.x-k8s.io/priority-class"
)

// localQueue is the name of the LocalQueue in each namespace.
const localQueue = "jobs"

// stage is a namespace with a ScaledJob whose Jobs Kueue admits.
type stage struct {
	*WithT
	*sjtest.Test

	t *testing.T
	// control is where manifests are applied.
	control *cluster.Cluster
	*crew
}

// newStage returns a namespace without a LocalQueue, and a ScaledJob that is yet to be created.
func newStage(t *testing.T) *stage {
	t.Helper()
	namespace := shared.Cluster.NewNamespace(t, "test")
	return newStageOf(t, namespace, "worker", namespace+":queue")
}

// newStageOf returns a ScaledJob of this name and queue, which is yet to be created.
func newStageOf(t *testing.T, namespace, name, queue string) *stage {
	t.Helper()
	s := &stage{WithT: NewWithT(t), t: t, control: shared.Cluster, Test: sjtest.NewTest(t, timeout, &sjtest.ScaledJob{
		API: shared.API, Redis: redis.Client(), Address: redis.Addr(), Operator: running,
		Namespace: namespace, Name: name, Queue: queue,
	})}
	s.crew = &crew{
		api: shared.API, kind: workers.ReliableList(redis.Client(), s.Queue), turns: make(chan struct{}),
		stop: map[types.UID]context.CancelFunc{}, left: map[string]workers.Message{},
	}
	t.Cleanup(s.explainKueue)
	return s
}

// apply applies manifests.
func (s *stage) apply(format string, args ...any) {
	s.t.Helper()
	s.Expect(s.control.Apply(s.t.Context(), strings.NewReader(fmt.Sprintf(format, args...)))).To(Succeed())
}

// quota lets so many Jobs of the namespace run at a time.
func (s *stage) quota(jobs int) {
	s.t.Helper()
	s.covers(corev1.ResourceCPU, jobs, "namespaceSelector: {}, preemption: {withinClusterQueue: LowerPriority}")
}

// covers makes a ClusterQueue with so much of a resource and these further fields, and a LocalQueue for it.
func (s *stage) covers(covered corev1.ResourceName, quota int, fields string) {
	s.t.Helper()
	s.apply(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec: {
  resourceGroups: [{
    coveredResources: [%[3]s], flavors: [{name: %[2]s, resources: [{name: %[3]s, nominalQuota: %[4]d}]}],
  }],
  %[5]s
}
`, s.Namespace, kueuekit.Flavor, covered, quota, fields)
	s.makeLocalQueue()
}

func (s *stage) makeLocalQueue() {
	s.t.Helper()
	s.apply(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterQueue: %[1]s}
`, s.Namespace, localQueue)
}

// create creates the ScaledJob, with workers that keep the messages in progress in a list and Jobs for Kueue unless
// changes say otherwise, and starts its workers.
func (s *stage) create(changes ...sjtest.Change) {
	s.t.Helper()
	s.Create(append([]sjtest.Change{s.kind.Count, labelled(queued(low))}, changes...)...)
	s.staff()
}

// staff starts the workers of the ScaledJob, and returns when it is served.
func (s *stage) staff() {
	s.t.Helper()
	s.Expect(s.Observe(s.t.Context(), shared.Cluster.Config(), s.Due)).To(Succeed())
	pods, err := s.api.Watch(s.t.Context(), &corev1.PodList{},
		client.InNamespace(s.Namespace), client.MatchingLabels{scaledjobv1.LabelScaledJob: s.Name})
	s.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- s.run(s.t.Context(), pods) }()
	s.t.Cleanup(func() { s.Expect(<-ended).To(Succeed()) })
	s.AwaitSubscription()
	s.AwaitTemplateChecked()
}

// accurate has workers that remove their message when they begin, and put it back when they are stopped.
func (s *stage) accurate(spec *scaledjobv1.ScaledJobSpec) {
	s.kind, s.returns = workers.PopAtStart(redis.Client(), s.Queue), true
	s.kind.Count(spec)
	spec.ScalingStrategy.Type = scaledjobv1.StrategyAccurate
	spec.ScalingStrategy.ClaimGraceSeconds = new(int32(1))
}

// queued are the labels of a Job for Kueue.
func queued(class string) map[string]string {
	return map[string]string{queueName: localQueue, priorityClass: class}
}

// labelled has Jobs with these labels, each of which takes 1 of the quota.
func labelled(labels map[string]string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate = &batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: requesting(1)}
	}
}

// requesting is a Job that takes so much of the quota.
func requesting(cpus int64) batchv1.JobSpec {
	return batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "worker", Image: "none", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)},
		},
	}}}}}
}

// pendingAtMost sets maxPendingReplicas.
func pendingAtMost(jobs int32) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = &jobs }
}

// finish lets so many workers finish their message.
func (s *stage) finish(messages int) {
	s.t.Helper()
	for range messages {
		s.Eventually(s.turns).Should(BeSent(struct{}{}))
	}
}

// finishAll lets all workers finish, from now on without waiting.
func (s *stage) finishAll() { close(s.turns) }

// expectWorking waits until so many workers have a message.
func (s *stage) expectWorking(workers int) {
	s.t.Helper()
	s.Eventually(s.counted).Should(HaveField("Working", workers), s.explain)
}

// expectJobs waits until so many Jobs were ever created, and makes sure that it stays so.
func (s *stage) expectJobs(ever int) {
	s.t.Helper()
	s.Eventually(s.Jobs.Created).Should(Equal(ever), s.explain)
	s.Update(sjtest.Polling(1))
	s.AwaitReconciles(3)
	s.Expect(s.Jobs.Sync(s.t.Context())).To(Succeed())
	s.Expect(s.Jobs.Created()).To(Equal(ever))
	s.Expect(s.Jobs.Violation()).To(BeEmpty())
}

// expectDone waits until so many messages are done, and asserts that each had one Job.
func (s *stage) expectDone(messages int) {
	s.t.Helper()
	s.Eventually(s.counted).Should(HaveField("Served", messages), s.explain)
	s.Expect(s.kind.Left(s.t.Context())).To(BeZero())
	s.Eventually(s.Jobs.Unfinished).Should(BeEmpty(), s.explain)
	s.expectJobs(messages)
	s.Expect(s.counted()).To(Equal(counts{Served: messages}), "no Job without a message")
}

// expectLimit waits until ScalingLimited has this status and reason, and returns its message.
func (s *stage) expectLimit(status metav1.ConditionStatus, reason string) (message string) {
	s.t.Helper()
	s.Eventually(func() *metav1.Condition { return s.Condition(scaledjobv1.ConditionScalingLimited) }).
		Should(And(HaveField("Status", status), HaveField("Reason", reason)), s.explain)
	return s.Condition(scaledjobv1.ConditionScalingLimited).Message
}

// expectCreatesFail waits until the status says that creates fail because of Kueue's webhook. While it hangs, that
// takes the operator more than one request to learn.
func (s *stage) expectCreatesFail() {
	s.t.Helper()
	s.Eventually(func() *metav1.Condition { return s.Condition(scaledjobv1.ConditionScalingLimited) }).Should(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Reason", scaledjobv1.ReasonCreateFailing),
		HaveField("Message", ContainSubstring("mjob.kb.io")),
	), s.explain)
}

// expectSuspended waits until the status says that so many of the active Jobs are suspended.
func (s *stage) expectSuspended(jobs, active int) {
	s.t.Helper()
	s.Eventually(s.Status).Should(And(
		HaveField("SuspendedJobs", BeEquivalentTo(jobs)), HaveField("ActiveJobs", BeEquivalentTo(active)),
	), s.explain)
}

// explain says what is, for a message about what did not happen.
func (s *stage) explain() string {
	return fmt.Sprintf("%+v, %d Jobs ever, unfinished %q, %s", s.counted(), s.Jobs.Created(), s.Jobs.Unfinished(), s.Explain())
}

// serve has messages come, of which so many are worked on at a time, and all workers finish.
func (s *stage) serve(messages, atATime int) {
	s.t.Helper()
	s.Push(messages)
	s.expectWorking(atATime)
	s.finishAll()
	s.expectDone(messages)
}

// workloads are those of the namespace: what Kueue knows of its Jobs.
func (s *stage) workloads() []unstructured.Unstructured {
	s.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "WorkloadList"})
	s.Expect(s.API.List(context.WithoutCancel(s.t.Context()), list, client.InNamespace(s.Namespace))).To(Succeed())
	return list.Items
}

// mostShown is how many lines of Kueue's log are shown.
const mostShown = 50

// explainKueue shows, if the test has failed, what Kueue says of the Jobs, and what it logged last about the namespace.
func (s *stage) explainKueue() {
	if !s.t.Failed() {
		return
	}
	for _, each := range s.workloads() {
		conditions, _, _ := unstructured.NestedSlice(each.Object, "status", "conditions")
		s.t.Logf("Workload %s: %v", each.GetName(), conditions)
	}
	var about []string
	for line := range strings.Lines(kueue.Logs()) {
		if strings.Contains(line, s.Namespace) {
			about = append(about, line)
		}
	}
	s.t.Logf("what Kueue logged last about namespace %s:\n%s", s.Namespace, strings.Join(about[max(0, len(about)-mostShown):], ""))
}
