// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

var (
	errAway = errors.New("away")
	// unreachable is the state of the queue during an outage of Redis, and subscribed the state of the notifications
	// otherwise.
	unreachable = &failure.Error{Reason: failure.ReasonUnreachable, Message: "Redis refused the connection. Start it.", Err: errAway}
	subscribed  = verify.Verdict{Reason: verify.ReasonSubscribed}
)

func scaledJob() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "emails", UID: "uid-1", Generation: 1}}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	sj.Generation = 4
	now := time.Unix(1000, 123_456_789)
	owned := jobs.Owned{
		Active:    []*batchv1.Job{{Status: batchv1.JobStatus{Ready: new(int32(1))}}, {}},
		Succeeded: make([]*batchv1.Job, 3),
		Failed:    make([]*batchv1.Job, 4),
	}

	status := Status(sj, &sj.Status, Reconciled{
		Jobs: owned, Created: 3, Depth: new(int64(47)), Desired: new(int32(5)), Notifications: subscribed, Template: templateAccepted,
	}, now)

	g.Expect(status).To(HaveField("ObservedGeneration", int64(4)))
	g.Expect(status.QueueDepth).To(HaveValue(Equal(int64(47))))
	g.Expect(status.DesiredJobs).To(HaveValue(Equal(int32(5))))
	g.Expect(status.ActiveJobs).To(Equal(int32(5)))
	g.Expect(status.PendingJobs).To(Equal(int32(4)), "a new Job has no ready Pod")
	g.Expect(status.SucceededJobs).To(Equal(int32(3)))
	g.Expect(status.FailedJobs).To(Equal(int32(4)))
	g.Expect(status.LastScaleTime.Time).To(BeTemporally("==", time.Unix(1000, 0)),
		"the API server stores whole seconds")
	g.Expect(status.Mode).To(Equal(scaledjobv1.ModeEvents))
	g.Expect(status.Conditions).To(HaveLen(5))
	g.Expect(status.Conditions).To(HaveEach(HaveField("ObservedGeneration", int64(4))))
	g.Expect(sj.Status).To(Equal(scaledjobv1.ScaledJobStatus{}), "the ScaledJob is unchanged")
}

// Values that a reconcile could not observe are kept.
func TestStatusKeepsTheUnseen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	before := Status(sj, &sj.Status, Reconciled{
		Created: 5, Depth: new(int64(47)), Desired: new(int32(5)), AtMax: true, Notifications: subscribed, Template: templateAccepted,
	}, time.Unix(1000, 0))

	after := Status(sj, before, Reconciled{QueueErr: unreachable}, time.Unix(2000, 0))

	g.Expect(after.QueueDepth).To(Equal(before.QueueDepth))
	g.Expect(after.DesiredJobs).To(Equal(before.DesiredJobs))
	g.Expect(after.LastScaleTime).To(Equal(before.LastScaleTime))
	g.Expect(after.ActiveJobs).To(BeZero(), "Jobs were counted")
	g.Expect(after.Mode).To(Equal(before.Mode))
	for _, kind := range []string{
		scaledjobv1.ConditionScalingLimited, scaledjobv1.ConditionTemplateValid, scaledjobv1.ConditionNotificationsActive,
	} {
		g.Expect(apimeta.FindStatusCondition(after.Conditions, kind)).
			To(Equal(apimeta.FindStatusCondition(before.Conditions, kind)))
	}
}

// Conditions of others, and those of an earlier version, are not the operator's to keep.
func TestStatusHasTheKnownConditionsOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	before := &scaledjobv1.ScaledJobStatus{Conditions: []metav1.Condition{
		{Type: "Foreign", Status: metav1.ConditionTrue, Reason: "Other"},
		{Type: scaledjobv1.ConditionTemplateValid, Status: metav1.ConditionTrue, Reason: scaledjobv1.ReasonAccepted},
	}}
	for _, after := range []*scaledjobv1.ScaledJobStatus{
		Status(sj, before, Reconciled{QueueErr: unreachable}, time.Unix(1000, 0)), Malformed(sj, before, errAway),
	} {
		g.Expect(after.Conditions).NotTo(ContainElement(HaveField("Type", "Foreign")))
		g.Expect(after.Conditions).To(ContainElement(HaveField("Type", scaledjobv1.ConditionTemplateValid)))
	}
	g.Expect(before.Conditions).To(HaveLen(2), "the previous status is unchanged")
}

func TestStatusOfTheFirstPassWithoutRedis(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()

	status := Status(sj, &sj.Status, Reconciled{QueueErr: unreachable}, time.Unix(1000, 0))

	g.Expect(status.QueueDepth).To(BeNil(), "an unknown depth is not 0")
	g.Expect(status.DesiredJobs).To(BeNil())
	g.Expect(status.LastScaleTime).To(BeNil())
	g.Expect(status.Conditions).To(ConsistOf(
		And(HaveField("Type", "QueueConnected"), HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "Unreachable")),
		And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "Unreachable")),
		And(HaveField("Type", "Reconciling"), HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Unreachable")),
	))
	g.Expect(status.Mode).To(BeEmpty(), "the mode is not known yet")
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	before := Status(sj, &sj.Status, Reconciled{QueueErr: unreachable}, time.Unix(1000, 0))
	sj.Generation = 2
	after := Malformed(sj, before, errors.New("threshold is a text"))

	g.Expect(after.ObservedGeneration).To(Equal(int64(2)))
	for kind, status := range map[string]metav1.ConditionStatus{
		scaledjobv1.ConditionReady: metav1.ConditionFalse, scaledjobv1.ConditionStalled: metav1.ConditionTrue,
	} {
		g.Expect(apimeta.FindStatusCondition(after.Conditions, kind)).To(HaveValue(And(
			HaveField("Status", status), HaveField("Reason", "InvalidSpec"), HaveField("ObservedGeneration", int64(2)),
			HaveField("Message", ContainSubstring("threshold is a text")))))
	}
	g.Expect(Events(before, after)).To(ConsistOf(HaveField("Reason", "InvalidSpec")))
	g.Expect(Malformed(sj, after, errors.New("threshold is a text"))).To(Equal(after), "the same error changes nothing")
}

// newer is the error of a spec with fields of a newer CRD.
type newer struct{ fields []string }

func (newer) Error() string { return "newer" }

func (n newer) UnknownFields() []string { return n.fields }

// large is the error of a spec with a template that is too large.
type large struct{}

func (large) Error() string { return "jobTemplate is larger than 64 KiB as JSON" }

func (large) TooLarge() bool { return true }

func TestMalformedByAnErrorOfAKnownKind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for words, err := range map[string]error{
		`This version of the operator does not know "spec.priority, spec.a\nb". Upgrade the operator, or remove`: newer{
			[]string{"spec.priority", "spec.a\nb"},
		},
		"jobTemplate is larger than 64 KiB as JSON. Move scripts, and long lists such as env, to a ConfigMap": large{},
	} {
		after := Malformed(scaledJob(), &scaledjobv1.ScaledJobStatus{}, err)
		for _, kind := range []string{scaledjobv1.ConditionReady, scaledjobv1.ConditionStalled} {
			is := apimeta.FindStatusCondition(after.Conditions, kind)
			g.Expect(is.Reason).To(Equal(scaledjobv1.ReasonInvalidSpec))
			g.Expect(is.Message).To(HavePrefix(words))
		}
	}
}

// What is written is the same as what comes back, so that it is kept once, and so that no difference is seen.
func TestStatusComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	written := Status(scaledJob(), &scaledjobv1.ScaledJobStatus{}, Reconciled{Created: 3, Depth: new(int64(5)), Desired: new(int32(5))}, time.Now())
	g.Expect(written.Conditions).NotTo(BeEmpty())
	text, err := json.Marshal(written)
	g.Expect(err).NotTo(HaveOccurred())
	var back scaledjobv1.ScaledJobStatus
	g.Expect(json.Unmarshal(text, &back)).To(Succeed())
	g.Expect(SameStatus(written, &back)).To(BeTrue())
}

// BenchmarkStatus measures the status after a reconcile that found nothing to do, and the comparison with the one
// before.
func BenchmarkStatus(b *testing.B) {
	sj := &scaledjobv1.ScaledJob{}
	seen := Reconciled{Depth: new(int64(3)), Desired: new(int32(3)), Queues: []scaledjobv1.QueueStatus{{Name: "emails", Depth: new(int64(3))}}}
	now := time.Now()
	before := Status(sj, &sj.Status, seen, now)
	b.ReportAllocs()
	for b.Loop() {
		if !SameStatus(before, Status(sj, before, seen, now)) {
			b.Fatal("the status has changed")
		}
	}
}
