// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/backoff"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/redisconn"
)

func TestReady(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "Message of " + reason + "."}
	}
	unreachable := condition("QueueConnected", metav1.ConditionFalse, "Unreachable")
	rejected := condition("TemplateValid", metav1.ConditionFalse, "Rejected")
	for name, c := range map[string]struct {
		suspend    bool
		conditions []metav1.Condition
		status     metav1.ConditionStatus
		reason     string
	}{
		"all well": {
			conditions: []metav1.Condition{condition("QueueConnected", metav1.ConditionTrue, "Connected")},
			status:     metav1.ConditionTrue, reason: "Reconciled",
		},
		"suspended":      {suspend: true, status: metav1.ConditionTrue, reason: "Suspended"},
		"no queue":       {conditions: []metav1.Condition{unreachable}, status: metav1.ConditionFalse, reason: "Unreachable"},
		"bad template":   {conditions: []metav1.Condition{rejected}, status: metav1.ConditionFalse, reason: "Rejected"},
		"both":           {conditions: []metav1.Condition{rejected, unreachable}, status: metav1.ConditionFalse, reason: "Unreachable"},
		"suspended, too": {suspend: true, conditions: []metav1.Condition{rejected}, status: metav1.ConditionFalse, reason: "Rejected"},
		"template not judged": {
			conditions: []metav1.Condition{condition("TemplateValid", metav1.ConditionUnknown, "NotChecked")},
			status:     metav1.ConditionTrue, reason: "Reconciled",
		},
		"limited is no fault": {
			conditions: []metav1.Condition{condition("ScalingLimited", metav1.ConditionTrue, "AtMaxReplicas")},
			status:     metav1.ConditionTrue, reason: "Reconciled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			sj := scaledJob()
			sj.Spec.Suspend = c.suspend

			is := ready(sj, c.conditions)

			g.Expect(is.status).To(Equal(c.status))
			g.Expect(is.reason).To(Equal(c.reason))
			if c.status == metav1.ConditionFalse {
				g.Expect(is.message).To(Equal("Message of "+c.reason+"."), "the cure is told here as well")
			}
		})
	}
}

func TestConditionsFollowWhatIsSeen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	is := queueConnected(nil)
	g.Expect([]string{string(is.status), is.reason}).To(Equal([]string{"True", "Connected"}))
	is = queueConnected(&redisconn.Error{Reason: redisconn.ReasonWrongType, Message: "Correct the key.", Err: errAway})
	g.Expect(is).To(Equal(conditionValue{metav1.ConditionFalse, "WrongType", "Correct the key."}))
	is = scalingLimited(plan{known: true, atMax: true}, backoff.None)
	g.Expect([]string{string(is.status), is.reason}).To(Equal([]string{"True", "AtMaxReplicas"}))
	is = scalingLimited(plan{known: true}, backoff.None)
	g.Expect([]string{string(is.status), is.reason}).To(Equal([]string{"False", "NotLimited"}))
}

func TestAPauseIsToldOfFirst(t *testing.T) {
	t.Parallel()
	for _, why := range []backoff.Reason{backoff.JobsFailing, backoff.NoProgress, backoff.CreateRefused} {
		is := scalingLimited(plan{known: true, atMax: true}, why)
		NewWithT(t).Expect([]string{string(is.status), is.reason}).To(Equal([]string{"True", string(why)}))
		NewWithT(t).Expect(is.message).To(ContainSubstring("five minutes"))
	}
}

func TestAbnormalConditionsArePresentOnlyWhileAbnormal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	status := &sj.Status
	pass := func(seen observation, template *conditionValue) []string {
		status = computeStatus(sj, status, seen, decide(&sj.Spec, seen, false), outcome{template: template}, time.Unix(1000, 0))
		var abnormal []string
		for _, kind := range []string{scaledjobv1.ConditionReconciling, scaledjobv1.ConditionStalled} {
			if is := apimeta.FindStatusCondition(status.Conditions, kind); is != nil {
				g.Expect(is.Status).To(Equal(metav1.ConditionTrue))
				abnormal = append(abnormal, kind+" "+is.Reason)
			}
		}
		return abnormal
	}
	denied := &redisconn.Error{Reason: redisconn.ReasonPermissionDenied, Message: "Grant it.", Err: errAway}
	busy := redisconn.Classify(redisconn.ErrBusy)
	rejected := &conditionValue{metav1.ConditionFalse, scaledjobv1.ReasonRejected, "Correct it."}

	g.Expect(pass(observation{}, &templateAccepted)).To(BeEmpty())
	g.Expect(pass(observation{queueErr: unreachable}, nil)).To(Equal([]string{"Reconciling Unreachable"}), "time may heal it")
	g.Expect(pass(observation{queueErr: denied}, nil)).To(Equal([]string{"Stalled PermissionDenied"}), "a person has to act")
	g.Expect(pass(observation{queueErr: busy}, nil)).To(Equal([]string{"Stalled PermissionDenied"}), "not looked at")
	g.Expect(pass(observation{}, nil)).To(BeEmpty())
	g.Expect(pass(observation{}, rejected)).To(Equal([]string{"Stalled Rejected"}))
	g.Expect(pass(observation{queueErr: unreachable}, nil)).To(Equal([]string{"Stalled Rejected"}), "time heals one of them only")
	sj.Spec.Suspend = true
	g.Expect(pass(observation{}, &templateAccepted)).To(BeEmpty(), "suspended is as wished")
}

// A status that differs from the last one is written. Nothing may differ that tells nothing.
func TestTheSameSightGivesTheSameStatus(t *testing.T) {
	t.Parallel()
	denied := &redisconn.Error{Reason: redisconn.ReasonPermissionDenied, Message: "Grant it.", Err: errAway}
	for name, seen := range map[string]observation{
		"well":         {depth: 3, events: subscribed},
		"away":         {queueErr: unreachable},
		"stalled":      {queueErr: denied},
		"busy":         {queueErr: redisconn.Classify(redisconn.ErrBusy)},
		"unverified":   {events: keyspace.State{Verdict: proof.Verdict{Reason: proof.ReasonUnverified}}},
		"unconfigured": {events: keyspace.State{Verdict: proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := scaledJob()
			plan := decide(&sj.Spec, seen, false)
			first := computeStatus(sj, &sj.Status, seen, plan, outcome{template: &templateAccepted}, time.Unix(1000, 0))
			second := computeStatus(sj, first, seen, plan, outcome{}, time.Unix(2000, 0))
			NewWithT(t).Expect(second).To(Equal(first))
		})
	}
}

// The classes of errors are the reasons of the condition, without a translation between them.
func TestReasonsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for reason, want := range map[redisconn.Reason]string{
		redisconn.ReasonUnreachable:      scaledjobv1.ReasonUnreachable,
		redisconn.ReasonAuthFailed:       scaledjobv1.ReasonAuthFailed,
		redisconn.ReasonPermissionDenied: scaledjobv1.ReasonPermissionDenied,
		redisconn.ReasonWrongType:        scaledjobv1.ReasonWrongType,
	} {
		NewWithT(t).Expect(string(reason)).To(Equal(want))
	}
	for reason, want := range map[proof.Reason]string{
		proof.ReasonSubscribed:       scaledjobv1.ReasonSubscribed,
		proof.ReasonUnverified:       scaledjobv1.ReasonUnverified,
		proof.ReasonNotConfigured:    scaledjobv1.ReasonNotConfigured,
		proof.ReasonNoEventsObserved: scaledjobv1.ReasonNoEventsObserved,
		proof.ReasonPermissionDenied: scaledjobv1.ReasonPermissionDenied,
		proof.ReasonUnreachable:      scaledjobv1.ReasonUnreachable,
	} {
		NewWithT(t).Expect(string(reason)).To(Equal(want))
	}
}

func TestConditionsStandInOneOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	first := computeStatus(sj, &sj.Status, observation{queueErr: unreachable}, plan{}, outcome{}, time.Unix(1000, 0))
	second := computeStatus(sj, first, observation{events: subscribed}, plan{known: true}, outcome{template: &templateAccepted}, time.Unix(2000, 0))
	third := computeStatus(sj, second, observation{queueErr: unreachable, events: subscribed}, plan{}, outcome{}, time.Unix(3000, 0))
	var kinds []string
	for _, condition := range third.Conditions {
		kinds = append(kinds, condition.Type)
	}
	g.Expect(kinds).To(Equal([]string{
		"Ready", "Reconciling", "QueueConnected", "NotificationsActive", "TemplateValid", "ScalingLimited",
	}))
}
