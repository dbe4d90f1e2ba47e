// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

func TestNotificationsActive(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	type found struct {
		status metav1.ConditionStatus
		reason string
		mode   scaledjobv1.ScalingMode
	}
	for known, want := range map[verify.Reason]found{
		verify.ReasonSubscribed:       {metav1.ConditionTrue, "Subscribed", scaledjobv1.ModeEvents},
		verify.ReasonUnverified:       {metav1.ConditionUnknown, "Unverified", scaledjobv1.ModePolling},
		verify.ReasonNotConfigured:    {metav1.ConditionFalse, "NotConfigured", scaledjobv1.ModePolling},
		verify.ReasonNoEventsObserved: {metav1.ConditionFalse, "NoEventsObserved", scaledjobv1.ModePolling},
		verify.ReasonPermissionDenied: {metav1.ConditionFalse, "PermissionDenied", scaledjobv1.ModePolling},
		verify.ReasonUnreachable:      {metav1.ConditionFalse, "Unreachable", scaledjobv1.ModePolling},

		verify.ReasonTooManyNotifications: {metav1.ConditionFalse, "TooManyNotifications", scaledjobv1.ModePolling},
	} {
		is := notificationsActive(&scaledJob().Spec, verify.Verdict{Reason: known}, verify.NotTracked)
		g.Expect(found{is.Status, is.Reason, modeOf(*is, verify.NotTracked)}).To(Equal(want))
		g.Expect(is.Message).To(MatchRegexp(`^[A-Z].*\.$`))
		if want.mode == scaledjobv1.ModePolling {
			want.mode = scaledjobv1.ModeTracking
		}
		is = notificationsActive(&scaledJob().Spec, verify.Verdict{Reason: known}, verify.Tracked)
		g.Expect(found{is.Status, is.Reason, modeOf(*is, verify.Tracked)}).To(Equal(want), "the other source is in the mode")
		g.Expect(is.Message).NotTo(ContainSubstring("polls"))
	}
	g.Expect(notificationsActive(&scaledJob().Spec, verify.Verdict{}, verify.NotTracked)).To(BeNil(), "undecided")
	other := scaledJob()
	for _, c := range []struct {
		spec     scaledjobv1.NotificationMode
		tracking verify.Tracking
		reason   string
		mode     scaledjobv1.ScalingMode
	}{
		{scaledjobv1.NotificationsDisabled, verify.NotTracked, "Disabled", scaledjobv1.ModePolling},
		{"OfANewerVersion", verify.NotTracked, "Disabled", scaledjobv1.ModePolling},
		{scaledjobv1.NotificationsTracking, verify.NotTracked, "NotSubscribed", scaledjobv1.ModePolling},
		{scaledjobv1.NotificationsTracking, verify.TrackedUnproven, "NotSubscribed", scaledjobv1.ModePolling},
		{scaledjobv1.NotificationsTracking, verify.Tracked, "NotSubscribed", scaledjobv1.ModeTracking},
	} {
		other.Spec.Notifications = c.spec
		is := notificationsActive(&other.Spec, verify.Verdict{}, c.tracking)
		g.Expect(found{is.Status, is.Reason, modeOf(*is, c.tracking)}).
			To(Equal(found{metav1.ConditionFalse, c.reason, c.mode}), "%s", c.spec)
	}
}

// A granted pattern may be for another database.
func TestPermissionDeniedNamesTheChannel(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	is := notificationsActive(&sj.Spec, verify.Verdict{Reason: verify.ReasonPermissionDenied}, verify.NotTracked)
	g.Expect(is.Message).To(ContainSubstring("&__keyspace@0__:<key>"))
	sj.Spec.Redis = &scaledjobv1.Redis{Database: 5}
	is = notificationsActive(&sj.Spec, verify.Verdict{Reason: verify.ReasonPermissionDenied}, verify.NotTracked)
	g.Expect(is.Message).To(ContainSubstring("&__keyspace@5__:<key>"))
}

// The message has the complete command.
func TestNotConfiguredTellsTheFlagsToSet(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	is := notConfigured(verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "KElgx"})
	g.Expect(is.Message).To(ContainSubstring("CONFIG SET notify-keyspace-events KElgx "))
	g.Expect(is.Message).NotTo(ContainSubstring("not let"))
	is = notConfigured(verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	g.Expect(is.Message).To(ContainSubstring("Redis rejects that"))
}
