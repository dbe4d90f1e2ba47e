// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func reasons(events []Event) (all []string) {
	for _, event := range events {
		all = append(all, event.Reason)
	}
	return all
}

func TestEventsAboutTheQueue(t *testing.T) {
	unknown := &scaledjobv1.ScaledJobStatus{}
	with := func(status metav1.ConditionStatus, reason, message string) *scaledjobv1.ScaledJobStatus {
		return &scaledjobv1.ScaledJobStatus{Conditions: []metav1.Condition{
			{Type: scaledjobv1.ConditionQueueConnected, Status: status, Reason: reason, Message: message},
		}}
	}
	connected := with(metav1.ConditionTrue, "Connected", "Read.")
	unreachable := with(metav1.ConditionFalse, "Unreachable", "Start it.")
	denied := with(metav1.ConditionFalse, "AuthFailed", "Set a password.")
	type row struct {
		before, after *scaledjobv1.ScaledJobStatus
		want          []string
	}
	bubble.Each(t, map[string]row{
		"connected from the start":   {unknown, connected, nil},
		"still connected":            {connected, connected, nil},
		"unreachable from the start": {unknown, unreachable, []string{eventRedisUnreachable}},
		"lost":                       {connected, unreachable, []string{eventRedisUnreachable}},
		"lost for another reason":    {connected, denied, []string{"AuthFailed"}},
		"another reason":             {unreachable, denied, []string{"AuthFailed"}},
		"a new reason":               {denied, with(metav1.ConditionFalse, "SecretNotFound", "Create it."), []string{"SecretNotFound"}},
		"still unreachable":          {unreachable, unreachable, nil},
		"other words":                {unreachable, with(metav1.ConditionFalse, "Unreachable", "Check DNS."), nil},
		"back":                       {denied, connected, []string{eventQueueConnected}},
	}, func(_ *testing.T, g Gomega, c row) {
		g.Expect(reasons(Events(c.before, c.after))).To(Equal(c.want))
	})
}

func TestEventsAboutNotifications(t *testing.T) {
	absent := &scaledjobv1.ScaledJobStatus{}
	with := func(status metav1.ConditionStatus, reason string) *scaledjobv1.ScaledJobStatus {
		return &scaledjobv1.ScaledJobStatus{Conditions: []metav1.Condition{
			{Type: scaledjobv1.ConditionNotificationsActive, Status: status, Reason: reason, Message: "Words."},
		}}
	}
	active := with(metav1.ConditionTrue, "Subscribed")
	unverified := with(metav1.ConditionUnknown, "Unverified")
	unconfigured, unreachable := with(metav1.ConditionFalse, "NotConfigured"), with(metav1.ConditionFalse, "Unreachable")
	disabled, onlyTracked := with(metav1.ConditionFalse, "Disabled"), with(metav1.ConditionFalse, "NotSubscribed")
	unavailable, restored := []string{eventNotificationsUnavailable}, []string{eventNotificationsRestored}
	type row struct {
		before, after *scaledjobv1.ScaledJobStatus
		want          []string
	}
	bubble.Each(t, map[string]row{
		"active from the start":     {absent, active, nil},
		"unverified from the start": {absent, unverified, nil},
		"missing from the start":    {absent, unconfigured, unavailable},
		"still active":              {active, active, nil},
		"lost":                      {active, unreachable, unavailable},
		"not sure any more":         {active, unverified, unavailable},
		"another reason":            {unreachable, unconfigured, nil},
		"never were":                {unverified, unconfigured, unavailable},
		"back":                      {unreachable, active, restored},
		"sure again":                {unverified, active, restored},
		"disabled":                  {active, disabled, nil},
		"enabled":                   {disabled, active, nil},
		"enabled, but unset":        {disabled, unconfigured, nil},
		"no longer wanted":          {active, onlyTracked, nil},
		"wanted":                    {onlyTracked, active, nil},
	}, func(_ *testing.T, g Gomega, c row) {
		g.Expect(reasons(Events(c.before, c.after))).To(Equal(c.want))
	})
}

// A Redis with its default settings needs no attention; one that has stopped to send notifications does.
func TestOnlyNotificationsThatWereLostAreAWarning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	with := func(status metav1.ConditionStatus) *scaledjobv1.ScaledJobStatus {
		return &scaledjobv1.ScaledJobStatus{Conditions: []metav1.Condition{
			{Type: scaledjobv1.ConditionNotificationsActive, Status: status, Reason: scaledjobv1.ReasonNotConfigured},
		}}
	}
	inactive := with(metav1.ConditionFalse)
	g.Expect(Events(&scaledjobv1.ScaledJobStatus{}, inactive)).To(ConsistOf(HaveField("Type", "Normal")))
	g.Expect(Events(with(metav1.ConditionUnknown), inactive)).To(ConsistOf(HaveField("Type", "Normal")))
	g.Expect(Events(with(metav1.ConditionTrue), inactive)).To(ConsistOf(HaveField("Type", "Warning")))
}

func TestEventNoteIsBrief(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	note := warning("Reason", "Act", "x"+strings.Repeat("ä", maxNote)).Note

	g.Expect(len(note)).To(BeNumerically("<=", 1024), "the limit of the API server")
	g.Expect(len(note)).To(BeNumerically(">", 1000))
	g.Expect(utf8.ValidString(note)).To(BeTrue())
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{{"", 4, ""}, {"word", 4, "word"}, {"words", 4, "w…"}, {"ääää", 8, "ääää"}, {"ääääx", 8, "ää…"}, {"xääää", 8, "xää…"}} {
		NewWithT(t).Expect(shorten(c.text, c.limit)).To(Equal(c.want))
	}
}
