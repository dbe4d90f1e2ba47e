// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
)

func TestNotificationsActive(t *testing.T) {
	t.Parallel()
	type found struct {
		status metav1.ConditionStatus
		reason string
		mode   scaledjobv1.ScalingMode
	}
	for known, want := range map[proof.Reason]found{
		proof.ReasonSubscribed:       {metav1.ConditionTrue, "Subscribed", scaledjobv1.ModeEvents},
		proof.ReasonUnverified:       {metav1.ConditionUnknown, "Unverified", scaledjobv1.ModePolling},
		proof.ReasonNotConfigured:    {metav1.ConditionFalse, "NotConfigured", scaledjobv1.ModePolling},
		proof.ReasonNoEventsObserved: {metav1.ConditionFalse, "NoEventsObserved", scaledjobv1.ModePolling},
		proof.ReasonPermissionDenied: {metav1.ConditionFalse, "PermissionDenied", scaledjobv1.ModePolling},
		proof.ReasonUnreachable:      {metav1.ConditionFalse, "Unreachable", scaledjobv1.ModePolling},
	} {
		t.Run(string(known), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			is := notificationsActive(&scaledJob().Spec, proof.Verdict{Reason: known})
			g.Expect(found{is.status, is.reason, modeOf(*is)}).To(Equal(want))
			g.Expect(is.message).To(MatchRegexp(`^[A-Z].*\.$`))
		})
	}
	g := NewWithT(t)
	g.Expect(notificationsActive(&scaledJob().Spec, proof.Verdict{})).To(BeNil(), "undecided")
	disabled := scaledJob()
	disabled.Spec.Notifications = scaledjobv1.NotificationsDisabled
	is := notificationsActive(&disabled.Spec, proof.Verdict{})
	g.Expect(found{is.status, is.reason, modeOf(*is)}).To(Equal(found{metav1.ConditionFalse, "Disabled", scaledjobv1.ModePolling}))
}

// What is to be typed stands in the message.
func TestNotConfiguredTellsTheFlagsToSet(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	is := notConfigured(proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "KElgx"})
	g.Expect(is.message).To(ContainSubstring("CONFIG SET notify-keyspace-events KElgx "))
	g.Expect(is.message).NotTo(ContainSubstring("not let"))
	is = notConfigured(proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	g.Expect(is.message).To(ContainSubstring("Redis does not let it"))
}

func TestResyncInterval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known    proof.Reason
		watchers int
		polling  int32 // seconds
		disabled bool
		want     time.Duration
	}{
		"proven":                       {known: proof.ReasonSubscribed, polling: 30, watchers: 1, want: 30 * time.Second},
		"unproven":                     {known: proof.ReasonUnverified, polling: 30, watchers: 1, want: 5 * time.Second},
		"undecided":                    {polling: 30, watchers: 1, want: 5 * time.Second},
		"not configured":               {known: proof.ReasonNotConfigured, polling: 30, watchers: 1, want: 5 * time.Second},
		"a shorter interval is wanted": {known: proof.ReasonUnverified, polling: 2, watchers: 1, want: 2 * time.Second},
		"many share the server":        {known: proof.ReasonUnverified, polling: 30, watchers: 2000, want: 10 * time.Second},
		"very many":                    {known: proof.ReasonUnverified, polling: 30, watchers: 20_000, want: 30 * time.Second},
		"disabled":                     {disabled: true, polling: 30, want: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := scaledJob()
			sj.Spec.PollingIntervalSeconds = c.polling
			if c.disabled {
				sj.Spec.Notifications = scaledjobv1.NotificationsDisabled
			}
			known := keyspace.State{Verdict: proof.Verdict{Reason: c.known}, Watchers: c.watchers}
			g := NewWithT(t)
			g.Expect(resyncInterval(sj, known, 5*time.Second)).To(Equal(c.want))
			g.Expect(resyncInterval(sj, known, 0)).To(Equal(time.Duration(c.polling)*time.Second), "there is no fallback")
		})
	}
}
