// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestReady(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "Message of " + reason + "."}
	}
	unreachable := condition("QueueConnected", metav1.ConditionFalse, "Unreachable")
	rejected := condition("TemplateValid", metav1.ConditionFalse, "Rejected")
	connected := condition("QueueConnected", metav1.ConditionTrue, "Connected")
	unchecked := condition("TemplateValid", metav1.ConditionUnknown, "NotChecked")
	refused := condition("ScalingLimited", metav1.ConditionTrue, "CreateRefused")
	failing := condition("ScalingLimited", metav1.ConditionTrue, "CreateFailing")
	unlimited := condition("ScalingLimited", metav1.ConditionFalse, "NotLimited")
	limited := condition("ScalingLimited", metav1.ConditionTrue, "AtMaxReplicas")
	type are = []metav1.Condition
	type row struct {
		suspend    bool
		conditions are
		failures   int
		status     metav1.ConditionStatus
		reason     string
	}
	bubble.Each(t, map[string]row{
		"all well":            {false, are{connected}, 0, metav1.ConditionTrue, "Reconciled"},
		"suspended":           {true, nil, 0, metav1.ConditionTrue, "Suspended"},
		"no queue":            {false, are{unreachable}, 0, metav1.ConditionFalse, "Unreachable"},
		"bad template":        {false, are{rejected}, 0, metav1.ConditionFalse, "Rejected"},
		"both":                {false, are{rejected, unreachable}, 0, metav1.ConditionFalse, "Unreachable"},
		"suspended, too":      {true, are{rejected}, 0, metav1.ConditionFalse, "Rejected"},
		"template not judged": {false, are{unchecked}, 0, metav1.ConditionTrue, "Reconciled"},
		"one create refused":  {false, are{refused}, 1, metav1.ConditionTrue, "Reconciled"},
		"creates refused":     {false, are{refused}, 2, metav1.ConditionFalse, "CreateRefused"},
		"creates failing":     {false, are{failing}, 2, metav1.ConditionFalse, "CreateFailing"},
		"no creates any more": {false, are{unlimited}, 2, metav1.ConditionTrue, "Reconciled"},
		"limited is no fault": {false, are{limited}, 0, metav1.ConditionTrue, "Reconciled"},
	}, func(_ *testing.T, g Gomega, c row) {
		is := ready(c.suspend, c.conditions, c.failures)

		g.Expect(is.Status).To(Equal(c.status))
		g.Expect(is.Reason).To(Equal(c.reason))
		if c.status == metav1.ConditionFalse {
			g.Expect(is.Message).To(Equal("Message of "+c.reason+"."), "Ready has the same message")
		}
	})
}

func TestConditionsFollowWhatIsSeen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	wrongType := &failure.Error{Reason: failure.ReasonWrongType, Message: "Correct the key.", Err: errAway}
	is := queueConnected(&Reconciled{})
	g.Expect([]string{string(is.Status), is.Reason}).To(Equal([]string{"True", "Connected"}))
	is = queueConnected(&Reconciled{QueueErr: wrongType})
	g.Expect(is).To(Equal(Condition{metav1.ConditionFalse, "WrongType", "Correct the key."}))
	is = queueConnected(&Reconciled{QueueErr: wrongType, FailedKey: "em\x00ails"})
	g.Expect(is.Message).To(Equal(`"em\x00ails" of spec.queues: Correct the key.`))
	is = queueConnected(&Reconciled{WithoutGroup: &scaledjobv1.Queue{Name: "clicks", Stream: &scaledjobv1.StreamQueue{ConsumerGroup: "workers"}}})
	g.Expect([]string{string(is.Status), is.Reason}).To(Equal([]string{"False", "ConsumerGroupNotFound"}))
	g.Expect(is.Message).To(And(ContainSubstring(`"clicks"`), ContainSubstring(`"workers"`)))
	is = queueConnected(&Reconciled{Trimmed: &scaledjobv1.Queue{Name: "cl icks", Stream: &scaledjobv1.StreamQueue{ConsumerGroup: "workers"}}})
	g.Expect([]string{string(is.Status), is.Reason}).To(Equal([]string{"True", "Connected"}))
	g.Expect(is.Message).To(ContainSubstring(`run XAUTOCLAIM "cl icks" "workers" CONSUMER 9999999999 0 `))
	is = scalingLimited(&scaledjobv1.ScaledJob{}, &Reconciled{AtMax: true})
	g.Expect([]string{string(is.Status), is.Reason}).To(Equal([]string{"True", "AtMaxReplicas"}))
	is = scalingLimited(&scaledjobv1.ScaledJob{}, &Reconciled{})
	g.Expect([]string{string(is.Status), is.Reason}).To(Equal([]string{"False", "NotLimited"}))
}

func TestAPauseIsReportedFirst(t *testing.T) {
	t.Parallel()
	for why, words := range map[scaling.PauseReason]string{
		scaling.JobsFailing: "every 30 seconds", scaling.NoProgress: "every 30 seconds", scaling.CreateRefused: "every five minutes",
	} {
		is := scalingLimited(&scaledjobv1.ScaledJob{}, &Reconciled{AtMax: true, Limit: why})
		NewWithT(t).Expect([]string{string(is.Status), is.Reason}).To(Equal([]string{"True", string(why)}))
		NewWithT(t).Expect(is.Message).To(ContainSubstring(words))
	}
}

func TestOrphanedMessagesAreReportedWhileTheyLimitScaling(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	list, stream := &scaledjobv1.Queue{Name: "letters"}, &scaledjobv1.Queue{Name: "clicks", Stream: &scaledjobv1.StreamQueue{}}
	for _, c := range []struct {
		seen   Reconciled
		reason string
		words  string
	}{
		{Reconciled{Due: true, Orphans: Orphans{Messages: 3, Queue: list}}, "MessagesOrphaned", `3 in "letters"`},
		{Reconciled{Due: true, Orphans: Orphans{Messages: 3, Queue: list}}, "MessagesOrphaned", "move them back"},
		{Reconciled{Due: true, Orphans: Orphans{Messages: 3, Queue: stream}}, "MessagesOrphaned", "XAUTOCLAIM"},
		{Reconciled{Due: true}, "MessagesOrphaned", "single Jobs"},
		{Reconciled{Orphans: Orphans{Probed: true}}, "MessagesOrphaned", "single Jobs"},
		{Reconciled{AtMax: true, Orphans: Orphans{Messages: 3, Queue: list}}, "AtMaxReplicas", ""},
		{Reconciled{Orphans: Orphans{Messages: 3, Queue: list}}, "NotLimited", ""},
	} {
		c.seen.Limit = scaling.MessagesOrphaned
		is := scalingLimited(&scaledjobv1.ScaledJob{}, &c.seen)
		g.Expect(is.Reason).To(Equal(c.reason))
		g.Expect(is.Message).To(ContainSubstring(c.words))
	}
}

func TestAbnormalConditionsArePresentOnlyWhileAbnormal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	status := &sj.Status
	pass := func(queueErr *failure.Error, template *Condition) []string {
		status = Status(sj, status, Reconciled{QueueErr: queueErr, Template: template}, time.Unix(1000, 0))
		var abnormal []string
		for _, kind := range []string{scaledjobv1.ConditionReconciling, scaledjobv1.ConditionStalled} {
			if is := apimeta.FindStatusCondition(status.Conditions, kind); is != nil {
				g.Expect(is.Status).To(Equal(metav1.ConditionTrue))
				abnormal = append(abnormal, kind+" "+is.Reason)
			}
		}
		return abnormal
	}
	denied := &failure.Error{Reason: failure.ReasonPermissionDenied, Message: "Grant it.", Err: errAway}
	busy := failure.Classify(failure.ErrBusy)
	rejected := &Condition{metav1.ConditionFalse, scaledjobv1.ReasonRejected, "Correct it."}

	g.Expect(pass(nil, templateAccepted)).To(BeEmpty())
	g.Expect(pass(unreachable, nil)).To(Equal([]string{"Reconciling Unreachable"}), "it may recover without a user")
	g.Expect(pass(denied, nil)).To(Equal([]string{"Stalled PermissionDenied"}), "a user has to act")
	g.Expect(pass(busy, nil)).To(Equal([]string{"Stalled PermissionDenied"}), "not observed")
	g.Expect(pass(nil, nil)).To(BeEmpty())
	g.Expect(pass(nil, rejected)).To(Equal([]string{"Stalled Rejected"}))
	g.Expect(pass(unreachable, nil)).To(Equal([]string{"Stalled Rejected"}),
		"only one of them may recover without a user")
	sj.Spec.Suspend = true
	g.Expect(pass(nil, templateAccepted)).To(BeEmpty(), "a suspended ScaledJob is neither")
}

// Tools treat a status of the current generation as successful if Ready is missing.
func TestNothingIsTakenForReadyThatWasNotLookedAt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	busy := Reconciled{QueueErr: failure.Classify(failure.ErrBusy)}
	sj := scaledJob()
	sj.Generation = 1
	expectReconciling := func(status *scaledjobv1.ScaledJobStatus) {
		g.Expect(apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionReady)).
			To(HaveValue(HaveField("Status", metav1.ConditionFalse)))
		g.Expect(apimeta.IsStatusConditionTrue(status.Conditions, scaledjobv1.ConditionReconciling)).To(BeTrue())
	}
	expectReconciling(Status(sj, &sj.Status, busy, time.Unix(1000, 0)))

	before := Status(sj, &sj.Status, Reconciled{Depth: new(int64(3)), Desired: new(int32(1)), Template: templateAccepted}, time.Unix(1000, 0))
	g.Expect(apimeta.IsStatusConditionTrue(before.Conditions, scaledjobv1.ConditionReady)).To(BeTrue())
	g.Expect(Status(sj, before, busy, time.Unix(1001, 0))).To(Equal(before), "nothing changes for the same spec")
	sj.Generation = 2
	expectReconciling(Status(sj, before, busy, time.Unix(1002, 0)))
}

func TestWhichReasonsNeedAPerson(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		"AuthFailed", "PermissionDenied", "WrongType", "DatabaseNotFound", "TLSFailed", "DialDenied", "SecretNotFound", "SecretInvalid",
		"SecretForbidden", "TooManyServers",
	} {
		sj := scaledJob()
		status := Status(sj, &sj.Status, Reconciled{QueueErr: &failure.Error{Reason: failure.Reason(reason), Message: "Act."}}, time.Unix(1000, 0))
		NewWithT(t).Expect(apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionStalled)).To(
			HaveValue(And(HaveField("Reason", reason), HaveField("Message", "Act."))))
		NewWithT(t).Expect(apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionReconciling)).
			To(BeNil(), reason)
	}
	for _, reason := range []string{"Unreachable", "ConsumerGroupNotFound"} {
		NewWithT(t).Expect(needsUser(reason)).To(BeFalse(), reason)
	}
}

// Each difference causes a write, so there must be no meaningless difference.
func TestTheSameSightGivesTheSameStatus(t *testing.T) {
	denied := &failure.Error{Reason: failure.ReasonPermissionDenied, Message: "Grant it.", Err: errAway}
	bubble.Each(t, map[string]Reconciled{
		"well":         {Depth: new(int64(3)), Desired: new(int32(1)), Notifications: subscribed},
		"away":         {QueueErr: unreachable},
		"stalled":      {QueueErr: denied},
		"busy":         {QueueErr: failure.Classify(failure.ErrBusy)},
		"unverified":   {Notifications: verify.Verdict{Reason: verify.ReasonUnverified}},
		"unconfigured": {Notifications: verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg"}},
	}, func(_ *testing.T, g Gomega, pass Reconciled) {
		sj := scaledJob()
		again := pass
		pass.Template = templateAccepted
		first := Status(sj, &sj.Status, pass, time.Unix(1000, 0))
		second := Status(sj, first, again, time.Unix(2000, 0))
		g.Expect(second).To(Equal(first))
	})
}

// The classes of errors equal the reasons of the condition.
func TestReasonsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect([]failure.Reason{
		failure.ReasonUnreachable, failure.ReasonAuthFailed, failure.ReasonPermissionDenied, failure.ReasonWrongType,
	}).To(Equal([]failure.Reason{
		scaledjobv1.ReasonUnreachable, scaledjobv1.ReasonAuthFailed, scaledjobv1.ReasonPermissionDenied, scaledjobv1.ReasonWrongType,
	}))
	g.Expect([]verify.Reason{
		verify.ReasonSubscribed, verify.ReasonUnverified, verify.ReasonNotConfigured, verify.ReasonNoEventsObserved,
		verify.ReasonPermissionDenied, verify.ReasonTooManyNotifications, verify.ReasonUnreachable,
	}).To(Equal([]verify.Reason{
		scaledjobv1.ReasonSubscribed, scaledjobv1.ReasonUnverified, scaledjobv1.ReasonNotConfigured, scaledjobv1.ReasonNoEventsObserved,
		scaledjobv1.ReasonPermissionDenied, scaledjobv1.ReasonTooManyNotifications, scaledjobv1.ReasonUnreachable,
	}))
}

func TestConditionsStandInOneOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	first := Status(sj, &sj.Status, Reconciled{QueueErr: unreachable}, time.Unix(1000, 0))
	well := Reconciled{Depth: new(int64(0)), Desired: new(int32(0)), Notifications: subscribed, Template: templateAccepted}
	second := Status(sj, first, well, time.Unix(2000, 0))
	third := Status(sj, second, Reconciled{QueueErr: unreachable, Notifications: subscribed}, time.Unix(3000, 0))
	var kinds []string
	for _, condition := range third.Conditions {
		kinds = append(kinds, condition.Type)
	}
	g.Expect(kinds).To(Equal([]string{
		"Ready", "Reconciling", "QueueConnected", "NotificationsActive", "TemplateValid", "ScalingLimited",
	}))
}

// Users wait for the name of the webhook that hangs, and the first request to it ends without an answer.
func TestTheFirstWordsOfTheAPIServerComeAtOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	status := &sj.Status
	message := func(answer admission.Answer, refresh bool) string {
		seen := Reconciled{Desired: new(int32(1)), Due: true, Failures: 1, Answer: answer, Refresh: refresh}
		status = Status(sj, status, seen, time.Unix(1000, 0))
		return apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionScalingLimited).Message
	}
	hangs := admission.Answer{By: admission.ByWebhook, Name: "hangs", Text: "deadline of hangs"}
	g.Expect(message(admission.Answer{}, true)).To(ContainSubstring("did not answer when"))
	g.Expect(message(hangs, false)).To(ContainSubstring("deadline of hangs"))
	g.Expect(message(admission.Answer{}, false)).To(ContainSubstring("deadline of hangs"))
	hangs.Text = "other words"
	g.Expect(message(hangs, false)).To(ContainSubstring("deadline of hangs"))
	g.Expect(message(hangs, true)).To(ContainSubstring("other words"))
}

// A server that returns a different error each time must not cause a write each time.
func TestOtherWordsWaitLikeNumbers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	with := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: 1}}
	}
	before := with(metav1.ConditionFalse, "Unreachable", "Refused.")
	g.Expect(changed(before, before)).To(BeFalse())
	g.Expect(changed(before, with(metav1.ConditionFalse, "Unreachable", "Too slow."))).To(BeFalse())
	g.Expect(changed(before, with(metav1.ConditionFalse, "AuthFailed", "Refused."))).To(BeTrue())
	g.Expect(changed(before, with(metav1.ConditionTrue, "Unreachable", "Refused."))).To(BeTrue())
	g.Expect(changed(before, nil)).To(BeTrue())
	other := with(metav1.ConditionFalse, "Unreachable", "Refused.")
	other[0].ObservedGeneration = 2
	g.Expect(changed(before, other)).To(BeTrue())
}
