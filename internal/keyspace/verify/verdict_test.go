// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	long, short := now.Add(-GracePeriod), now.Add(-GracePeriod+time.Millisecond)
	subscribed := Subscription{Present: true, Since: short}
	subscribedLong := Subscription{Present: true, Since: long}
	says := func(flags Flags) *Evidence { return &Evidence{setting: Setting{Readable: true, Flags: flags}} }
	heard := func(classes ...Class) *Evidence { return &Evidence{heard: classes} }
	because := func(reason Reason) Verdict { return Verdict{Reason: reason} }
	lacks := func(flags string) Verdict { return Verdict{Reason: ReasonNotConfigured, Flags: flags} }
	refused := Verdict{Reason: ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true}
	soon := short.Add(GracePeriod)
	disproved := &Audit{misses: missesToDisprove, missingSince: long}
	missedOnce := &Audit{misses: missesToDisprove - 1, missingSince: long, grownAt: now}
	for name, c := range map[string]struct {
		key    Subscription
		server *Evidence
		audit  *Audit
		want   Verdict
		until  time.Time
	}{
		"not subscribed yet":     {key: Subscription{Since: short}, until: soon},
		"away for a moment":      {key: Subscription{Since: short}, server: says("xE"), until: soon},
		"away":                   {key: Subscription{Since: long}, server: heard(ClassList), want: because(ReasonUnreachable)},
		"forbidden":              {key: Subscription{Since: long, Forbidden: true}, want: because(ReasonPermissionDenied)},
		"nothing shown yet":      {key: subscribed, until: soon},
		"nothing shown for long": {key: subscribedLong, want: because(ReasonUnverified)},
		"heard":                  {key: subscribed, server: heard(ClassList), want: because(ReasonSubscribed)},
		"configured":             {key: subscribed, server: says("Kl"), want: because(ReasonSubscribed)},
		"not configured":         {key: subscribed, server: says("xE"), want: lacks("KElgx")},
		"switched off": {
			key: subscribed, server: &Evidence{setting: says("").setting, heard: []Class{ClassList}}, want: lacks("Klg"),
		},
		"disproved, configured": {
			key: subscribed, server: &Evidence{setting: says("KA").setting, heard: []Class{ClassList}}, audit: disproved,
			want: because(ReasonNoEventsObserved),
		},
		"disproved, not telling":   {key: subscribed, server: &Evidence{}, audit: disproved, want: because(ReasonNoEventsObserved)},
		"disproved, but no wonder": {key: subscribed, server: says(""), audit: disproved, want: lacks("Klg")},
		"disproved before it was configured": {
			key: subscribed, server: &Evidence{setting: says("Klg").setting, silentUntil: map[Class]time.Time{ClassList: short}}, audit: disproved,
			want: because(ReasonSubscribed),
		},
		"missed once, and about to miss again": {
			key: subscribed, server: says("Kl"), audit: missedOnce, want: because(ReasonSubscribed), until: now.Add(eventDelay),
		},
		"about to miss for the first time": {
			key: subscribed, server: says("Kl"), audit: &Audit{grownAt: now}, want: because(ReasonSubscribed),
		},
		"may not configure":      {key: subscribed, server: &Evidence{setting: Setting{Readable: true, Refused: true}}, want: refused},
		"about to be configured": {key: subscribedLong, server: &Evidence{setting: Setting{Readable: true, Extended: true}}},
		"would be configured, but refuses": {
			key: subscribed, server: &Evidence{setting: Setting{Readable: true, Extended: true, Refused: true}}, want: refused,
		},
		"too many events": {key: Subscription{Since: short, Flooded: true}, want: because(ReasonTooManyNotifications)},
		"too many events until a short time ago": {
			key: Subscription{Present: true, Since: long, Flooded: true}, server: says("Kl"), want: because(ReasonTooManyNotifications),
		},
		"notified of another class":    {key: subscribedLong, server: heard(ClassHash, ClassStream), want: because(ReasonUnverified)},
		"configured for another class": {key: subscribed, server: says("Kzt"), want: lacks("Klgzt")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, audit := c.server, c.audit
			if server == nil {
				server = &Evidence{}
			}
			if audit == nil {
				audit = &Audit{}
			}
			verdict, until := Judge(server, Key{ClassList, c.key, audit}, func() []Class { return []Class{ClassList} }, now)
			NewWithT(t).Expect(verdict).To(Equal(c.want))
			NewWithT(t).Expect(until).To(Equal(c.until))
		})
	}
}
