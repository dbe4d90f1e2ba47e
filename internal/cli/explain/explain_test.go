// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaling"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// update writes the expected texts again.
var update = flag.Bool("update", false, "write the files with what is expected")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// parse reads a ScaledJob in the namespace mail, with the conditions of one that works.
func parse(t *testing.T, spec, status string) *scaledjobv1.ScaledJob {
	t.Helper()
	g := NewWithT(t)
	sj := &scaledjobv1.ScaledJob{}
	g.Expect(yaml.UnmarshalStrict([]byte("spec: "+spec+"\nstatus: "+status), sj)).To(Succeed())
	sj.Namespace, sj.Name, sj.UID, sj.Generation = "mail", "emails", "owner", 1
	sj.Status.ObservedGeneration = 1
	if sj.Status.Conditions == nil {
		sj.Status.Conditions = []metav1.Condition{
			{Type: scaledjobv1.ConditionReady, Status: metav1.ConditionTrue, Reason: scaledjobv1.ReasonReconciled, Message: "It works."},
			{
				Type: scaledjobv1.ConditionScalingLimited, Status: metav1.ConditionFalse, Reason: scaledjobv1.ReasonNotLimited,
				Message: noneHeld,
			},
		}
	}
	return sj
}

func newJob(name string, change ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "mail", Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: scaledjobv1.GroupVersion.String(), Kind: "ScaledJob", Name: "emails", UID: "owner", Controller: new(true),
		}},
	}}
	for _, each := range change {
		each(job)
	}
	return job
}

func ready(job *batchv1.Job) {
	job.Status.Active, job.Status.Ready = 1, new(int32(1))
}

func suspended(job *batchv1.Job) {
	job.Spec.Suspend = new(true)
}

func ended(kind batchv1.JobConditionType) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
	}
}

func newPod(job string, status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: job + "-0", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(job), Controller: new(true),
		}}},
		Status: status,
	}
}

func pulling() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "worker", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "ImagePullBackOff", Message: `Back-off pulling image "example/worker:0"`,
		}},
	}}}
}

func unschedulable() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu.",
	}}}
}

func readySince(since time.Time) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
	}}}
}

const (
	plain  = `{queueName: emails, redisAddress: "redis:6379", threshold: 10, maxReplicas: 20, jobTemplate: {spec: {template: {spec: {containers: []}}}}}`
	events = `{queues: [{name: events, type: Stream, stream: {consumerGroup: workers}}], redisAddress: "redis:6379", threshold: 2, ` +
		`scalingStrategy: {type: Accurate}, jobTemplate: {spec: {template: {spec: {containers: []}}}}}`
)

var (
	accurate   = strings.Replace(plain, "threshold: 10", "threshold: 1, scalingStrategy: {type: Accurate}", 1)
	unreadable = []string{"You may not list Jobs: the numbers are those of the status.", "You may not list Pods: it is not known what they wait for."}
)

// situation is a ScaledJob of this spec, or a plain one, and what else is known of it: all, unless something is
// unreadable.
type situation struct {
	spec, status string
	change       func(*scaledjobv1.ScaledJob)
	Facts
}

func (s situation) facts(t *testing.T) Facts {
	t.Helper()
	s.ScaledJob, s.Now = parse(t, cmp.Or(s.spec, plain), s.status), now
	s.JobsKnown, s.PodsKnown = s.Unreadable == nil, s.Unreadable == nil
	if s.change != nil {
		s.change(s.ScaledJob)
	}
	return s.Facts
}

// situations are what is explained, by the names of the files with the texts.
var situations = map[string]situation{
	"balance": {
		status: `{queueDepth: 47, desiredJobs: 5, activeJobs: 5, mode: Tracking, queues: [{name: emails, depth: 47}]}`,
		Facts: Facts{
			Jobs: []*batchv1.Job{
				newJob("a", ready), newJob("b", ready), newJob("c", ready), newJob("d"), newJob("e"), newJob("f", ended(batchv1.JobComplete)),
			},
			Pods: []*corev1.Pod{newPod("d", pulling()), newPod("e", unschedulable())},
		},
	},
	"nothing-reported": {
		status: `{conditions: []}`, change: func(sj *scaledjobv1.ScaledJob) { sj.Status.ObservedGeneration = 0 },
	},
	"at-the-maximum": {
		spec: strings.Replace(plain, "maxReplicas: 20", "maxReplicas: 1", 1),
		status: `{queueDepth: 47, desiredJobs: 1, mode: Events, queues: [{name: emails, depth: 47}], conditions: [{type: ScalingLimited, ` +
			`status: "True", reason: AtMaxReplicas, message: "More Jobs are due than spec.maxReplicas allows. Raise it to process the queue faster."}]}`,
		Facts: Facts{Jobs: []*batchv1.Job{newJob("a", ready)}},
	},
	"several-queues": {
		spec: `{queues: [{name: urgent, threshold: 1}, {name: bulk, threshold: 100}, {name: working, role: InProgress, threshold: 1}], ` +
			`redisAddress: "redis:6379", threshold: 1, spareReplicas: 2, minReplicas: 1, jobTemplate: {spec: {template: {spec: {containers: []}}}}}`,
		status: `{queueDepth: 255, desiredJobs: 10, mode: Events, queues: [{name: urgent, depth: 3}, {name: bulk, depth: 250}, {name: working, depth: 2}]}`,
	},
	"accurate": {
		spec:   accurate,
		status: `{queueDepth: 1, desiredJobs: 2, mode: Events, queues: [{name: emails, depth: 1}]}`,
		Facts: Facts{
			Jobs: []*batchv1.Job{newJob("a", ready), newJob("b", ready)},
			Pods: []*corev1.Pod{newPod("a", readySince(now.Add(-time.Hour))), newPod("b", readySince(now.Add(-time.Second)))},
		},
	},
	"nothing-readable": {
		spec:   accurate,
		status: `{queueDepth: 1, desiredJobs: 2, activeJobs: 3, pendingJobs: 1, failedJobs: 4, mode: Polling, queues: [{name: emails, depth: 1}]}`,
		Facts:  Facts{Unreadable: unreadable},
	},
	"suspended-by-kueue": {
		status: `{queueDepth: 20, desiredJobs: 2, mode: Events, queues: [{name: emails, depth: 20}], conditions: [{type: ScalingLimited, ` +
			`status: "True", reason: JobsSuspended, message: "Messages are outstanding, and all 2 active Jobs are suspended, so that none runs."}]}`,
		Facts: Facts{
			Jobs:      []*batchv1.Job{newJob("a", suspended), newJob("b", suspended)},
			Workloads: []Workload{{Job: "a", Message: "couldn't assign flavors to pod set main: insufficient unused quota"}},
		},
	},
	"quota-for-pods": {
		status: `{queueDepth: 20, desiredJobs: 2, mode: Events, queues: [{name: emails, depth: 20}]}`,
		Facts: Facts{
			Jobs: []*batchv1.Job{newJob("a"), newJob("b")},
			Events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{Kind: "Job", UID: "a"}, Reason: "FailedCreate",
				Message: `Error creating: pods "a-x7d" is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3`,
			}},
			Quotas: []corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Name: "few"},
				Status: corev1.ResourceQuotaStatus{
					Hard: corev1.ResourceList{"pods": resource.MustParse("3"), "count/jobs.batch": resource.MustParse("9")},
					Used: corev1.ResourceList{"pods": resource.MustParse("3"), "count/jobs.batch": resource.MustParse("2")},
				},
			}},
		},
	},
	"not-activated": {
		spec:   strings.Replace(plain, "threshold: 10", "threshold: 10, activationThreshold: 50, maxWaitSeconds: 60", 1),
		status: `{queueDepth: 47, desiredJobs: 0, mode: Events, queues: [{name: emails, depth: 47}]}`,
	},
	"pause": {
		status: `{queueDepth: 47, desiredJobs: 5, mode: Polling, creationPausedUntil: "2026-03-01T12:00:25Z", ` +
			`queues: [{name: emails, depth: 47}], conditions: [{type: NotificationsActive, status: "False", reason: NotConfigured, ` +
			`message: "Redis sends no notifications."}, {type: ScalingLimited, status: "True", reason: JobsFailing, ` +
			`message: "The last Jobs to finish have all failed."}]}`,
		Facts: Facts{Jobs: []*batchv1.Job{newJob("a", ended(batchv1.JobFailed))}},
	},
	"surplus-and-suspended": {
		spec:   `{suspend: true, ` + plain[1:],
		status: `{queueDepth: 1, desiredJobs: 1, mode: Events, queues: [{name: emails, depth: 1}]}`,
		change: func(sj *scaledjobv1.ScaledJob) { sj.Generation = 2 },
		Facts:  Facts{Jobs: []*batchv1.Job{newJob("a", ready), newJob("b", ready)}},
	},
	"live": {
		spec:   events,
		status: `{queueDepth: 1, desiredJobs: 1, mode: Events, queues: [{name: events, depth: 1}]}`,
		Facts: Facts{
			Live: []scaling.Queue{{Waiting: 7, InProgress: 3, Threshold: 2}},
			Jobs: []*batchv1.Job{newJob("a", ready)},
			Pods: []*corev1.Pod{newPod("a", readySince(now.Add(-time.Hour)))},
		},
	},
	"stream-of-the-status": {
		spec: events,
		status: `{queueDepth: 10, desiredJobs: 5, claimedJobs: 1, activeJobs: 5, pendingJobs: 4, mode: Events, ` +
			`queues: [{name: events, depth: 10, pendingEntries: 3}]}`,
		Facts: Facts{Unreadable: unreadable},
	},
	"unreachable": {
		status: `{conditions: [{type: Ready, status: "False", reason: Unreachable, message: "The server does not answer. Check the address."}, ` +
			`{type: QueueConnected, status: "False", reason: Unreachable, message: "The server does not answer. Check the address."}]}`,
	},
}

func TestExplanations(t *testing.T) {
	t.Parallel()
	for name, about := range situations {
		explanation := Explain(about.facts(t))
		expectFile(NewWithT(t), name+".golden", explanation.Text(100))
	}
}

// Programs read this: fields are only ever added.
func TestExplanationForPrograms(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	encoded := must.Get(json.MarshalIndent(Explain(situations["balance"].facts(t)), "", "  "))(g)
	expectFile(g, "balance.json", string(encoded)+"\n")
}

// expectFile expects a text to be that of a file, or writes it there.
func expectFile(g Gomega, name, is string) {
	path := filepath.Join("testdata", name)
	if *update {
		g.Expect(os.WriteFile(path, []byte(is), 0o600)).To(Succeed())
	}
	expected := must.Get(os.ReadFile(path))(g)
	g.Expect(is).To(Equal(string(expected)))
}

// A narrow terminal gets narrow lines.
func TestTextIsAsWideAsTheTerminal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	explanation := Explain(situations["pause"].facts(t))
	for width := range 40 {
		g.Expect(explanation.Text(width)).NotTo(BeEmpty(), "however narrow it is")
	}
	for line := range strings.Lines(explanation.Text(40)) {
		if strings.Contains(line, "waiting") || strings.Contains(line, "status.") {
			continue // Tables and names are not broken.
		}
		g.Expect(len([]rune(strings.TrimRight(line, "\n")))).To(BeNumerically("<=", 40), line)
	}
}

// The last step of the arithmetic, if it is not left to the operator, is what package scaling says.
func TestTheArithmeticEndsWithTheDesiredJobs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sj := drawScaledJob(t)
		explanation := Explain(Facts{ScaledJob: sj, JobsKnown: true, PodsKnown: true, Now: now})
		last := explanation.Arithmetic[len(explanation.Arithmetic)-1]
		if !strings.HasSuffix(last, fmt.Sprintf(" %d", *sj.Status.DesiredJobs)) {
			t.Fatalf("%d Jobs are desired: %q", *sj.Status.DesiredJobs, explanation.Arithmetic)
		}
	})
}

// So many more messages as it says make one more Job due, and one message fewer does not.
func TestTheNextJobIsDueWithSoManyMessages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sj := drawScaledJob(t)
		e := newExplainer(Facts{ScaledJob: sj, JobsKnown: true, PodsKnown: true, Now: now})
		n := e.untilNext()
		if n == 0 {
			return
		}
		seen, _ := e.observation()
		desired := scaling.Decide(seen, e.policy).Desired
		for _, row := range []struct {
			more int64
			is   bool
		}{{n, true}, {n - 1, false}} {
			seen, _ := e.observation()
			seen.Queues[0].Waiting += row.more
			if (scaling.Decide(seen, e.policy).Desired > desired) != row.is {
				t.Fatalf("with %d more messages: %+v", row.more, seen)
			}
		}
	})
}

// drawScaledJob draws one whose status has the desired Jobs for its depths. Its first queue is Waiting.
func drawScaledJob(t *rapid.T) *scaledjobv1.ScaledJob {
	small := rapid.Int64Range(0, 30)
	sj := &scaledjobv1.ScaledJob{}
	sj.Spec.Threshold = rapid.Int64Range(1, 5).Draw(t, "threshold")
	sj.Spec.ActivationThreshold = rapid.Int64Range(0, 10).Draw(t, "activation")
	sj.Spec.MinReplicas = int32(rapid.Int64Range(0, 3).Draw(t, "minimum"))
	sj.Spec.SpareReplicas = int32(rapid.Int64Range(0, 3).Draw(t, "spare"))
	most := int32(small.Draw(t, "maximum"))
	sj.Spec.MaxReplicas = &most
	sj.Spec.ScalingStrategy.Type = rapid.SampledFrom([]scaledjobv1.ScalingStrategyType{
		scaledjobv1.StrategyDefault, scaledjobv1.StrategyAccurate, scaledjobv1.StrategyEager, scaledjobv1.StrategyCustom,
	}).Draw(t, "strategy")
	sj.Spec.QueuesCalculation = rapid.SampledFrom([]scaledjobv1.QueuesCalculation{
		scaledjobv1.CalculateSum, scaledjobv1.CalculateMax,
	}).Draw(t, "calculation")
	for i := range rapid.IntRange(1, 4).Draw(t, "queues") {
		threshold := rapid.Int64Range(1, 5).Draw(t, "its threshold")
		queue := scaledjobv1.Queue{Name: fmt.Sprint(i), Threshold: &threshold}
		if i > 0 && rapid.Bool().Draw(t, "in progress") {
			queue.Role = scaledjobv1.RoleInProgress
		}
		depth := small.Draw(t, "depth")
		sj.Spec.Queues = append(sj.Spec.Queues, queue)
		sj.Status.Queues = append(sj.Status.Queues, scaledjobv1.QueueStatus{Name: queue.Name, Depth: &depth})
	}
	e := newExplainer(Facts{ScaledJob: sj, JobsKnown: true, PodsKnown: true, Now: now})
	seen, _ := e.observation()
	desired := scaling.Decide(seen, e.policy).Desired
	sj.Status.DesiredJobs = &desired
	return sj
}
