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
	asked := func(flags Flags) Setting { return Setting{Readable: true, Flags: flags} }
	soon := short.Add(GracePeriod)
	disproved := &Audit{misses: missesToDisprove, missingSince: long}
	for name, c := range map[string]struct {
		key    Subscription
		server *Evidence
		audit  *Audit
		want   Verdict
		until  time.Time
	}{
		"not subscribed yet": {key: Subscription{Since: short}, until: soon},
		"away for a moment":  {key: Subscription{Since: short}, server: &Evidence{setting: asked("xE")}, until: soon},
		"away":               {key: Subscription{Since: long}, server: &Evidence{heard: []Class{ClassList}}, want: Verdict{Reason: ReasonUnreachable}},
		"forbidden": {
			key:  Subscription{Since: long, Forbidden: true},
			want: Verdict{Reason: ReasonPermissionDenied},
		},
		"nothing shown yet":      {key: subscribed, until: soon},
		"nothing shown for long": {key: Subscription{Present: true, Since: long}, want: Verdict{Reason: ReasonUnverified}},
		"heard":                  {key: subscribed, server: &Evidence{heard: []Class{ClassList}}, want: Verdict{Reason: ReasonSubscribed}},
		"configured":             {key: subscribed, server: &Evidence{setting: asked("Kl")}, want: Verdict{Reason: ReasonSubscribed}},
		"not configured":         {key: subscribed, server: &Evidence{setting: asked("xE")}, want: Verdict{Reason: ReasonNotConfigured, Flags: "KElgx"}},
		"switched off":           {key: subscribed, server: &Evidence{setting: asked(""), heard: []Class{ClassList}}, want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg"}},
		"disproved, configured":  {key: subscribed, server: &Evidence{setting: asked("KA"), heard: []Class{ClassList}}, audit: disproved, want: Verdict{Reason: ReasonNoEventsObserved}},
		"disproved, not telling": {key: subscribed, server: &Evidence{}, audit: disproved, want: Verdict{Reason: ReasonNoEventsObserved}},
		"disproved, but no wonder": {
			key: subscribed, server: &Evidence{setting: asked("")}, audit: disproved,
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg"},
		},
		"disproved before it was configured": {
			key: subscribed, server: &Evidence{setting: asked("Klg"), silentUntil: map[Class]time.Time{ClassList: short}}, audit: disproved,
			want: Verdict{Reason: ReasonSubscribed},
		},
		"missed once, and about to miss again": {
			key: subscribed, server: &Evidence{setting: asked("Kl")},
			audit: &Audit{misses: missesToDisprove - 1, missingSince: long, grownAt: now},
			want:  Verdict{Reason: ReasonSubscribed}, until: now.Add(eventDelay),
		},
		"about to miss for the first time": {
			key: subscribed, server: &Evidence{setting: asked("Kl")}, audit: &Audit{grownAt: now},
			want: Verdict{Reason: ReasonSubscribed},
		},
		"may not configure": {
			key: subscribed, server: &Evidence{setting: Setting{Readable: true, Refused: true}},
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true},
		},
		"about to be configured": {
			key: Subscription{Present: true, Since: long}, server: &Evidence{setting: Setting{Readable: true, Extended: true}},
			want: Verdict{},
		},
		"would be configured, but refuses": {
			key: subscribed, server: &Evidence{setting: Setting{Readable: true, Extended: true, Refused: true}},
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true},
		},
		"too many events": {key: Subscription{Since: short, Flooded: true}, want: Verdict{Reason: ReasonTooManyNotifications}},
		"too many events until a short time ago": {
			key: Subscription{Present: true, Since: long, Flooded: true}, server: &Evidence{setting: asked("Kl")},
			want: Verdict{Reason: ReasonTooManyNotifications},
		},
		"heard of another class": {
			key: Subscription{Present: true, Since: long}, server: &Evidence{heard: []Class{ClassHash, ClassStream}},
			want: Verdict{Reason: ReasonUnverified},
		},
		"configured for another class": {
			key: subscribed, server: &Evidence{setting: asked("Kzt")},
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klgzt"},
		},
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

func TestTheFlagsForOtherKeysAreNotLost(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Unix(1000, 0)
	server := &Evidence{setting: Setting{Readable: true, Flags: "Klx"}}
	for class, want := range map[Class]Verdict{
		ClassList: {Reason: ReasonSubscribed},
		ClassHash: {Reason: ReasonNotConfigured, Flags: "Klghtx"},
	} {
		key := Key{class, Subscription{Present: true, Since: now}, &Audit{}}
		verdict, until := Judge(server, key, func() []Class { return []Class{ClassList, ClassStream, ClassHash} }, now)
		g.Expect(verdict).To(Equal(want), string(class))
		g.Expect(until).To(BeZero(), string(class))
	}
}
