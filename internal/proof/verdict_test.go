// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	long, short := now.Add(-gracePeriod), now.Add(-gracePeriod+time.Millisecond)
	subscribed := Subscription{Present: true, Since: short}
	asked := func(flags Flags) Setting { return Setting{Readable: true, Flags: flags} }
	disproved := &Audit{misses: missesToDisprove, missingSince: long}
	for name, c := range map[string]struct {
		key    Subscription
		server *Evidence
		audit  *Audit
		want   Verdict
	}{
		"not subscribed yet": {key: Subscription{Since: short}, want: Verdict{}},
		"away for a moment":  {key: Subscription{Since: short}, server: &Evidence{setting: asked("xE")}, want: Verdict{}},
		"away":               {key: Subscription{Since: long}, server: &Evidence{heard: true}, want: Verdict{Reason: ReasonUnreachable}},
		"forbidden": {
			key:  Subscription{Since: long, Forbidden: true},
			want: Verdict{Reason: ReasonPermissionDenied},
		},
		"nothing shown yet":      {key: subscribed, want: Verdict{}},
		"nothing shown for long": {key: Subscription{Present: true, Since: long}, want: Verdict{Reason: ReasonUnverified}},
		"heard":                  {key: subscribed, server: &Evidence{heard: true}, want: Verdict{Reason: ReasonSubscribed}},
		"configured":             {key: subscribed, server: &Evidence{setting: asked("Kl")}, want: Verdict{Reason: ReasonSubscribed}},
		"not configured":         {key: subscribed, server: &Evidence{setting: asked("xE")}, want: Verdict{Reason: ReasonNotConfigured, Flags: "KElgx"}},
		"switched off":           {key: subscribed, server: &Evidence{setting: asked(""), heard: true}, want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg"}},
		"disproved, configured":  {key: subscribed, server: &Evidence{setting: asked("KA"), heard: true}, audit: disproved, want: Verdict{Reason: ReasonNoEventsObserved}},
		"disproved, not telling": {key: subscribed, server: &Evidence{}, audit: disproved, want: Verdict{Reason: ReasonNoEventsObserved}},
		"disproved, but no wonder": {
			key: subscribed, server: &Evidence{setting: asked("")}, audit: disproved,
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg"},
		},
		"disproved before it was configured": {
			key: subscribed, server: &Evidence{setting: asked("Klg"), silentUntil: short}, audit: disproved,
			want: Verdict{Reason: ReasonSubscribed},
		},
		"may not configure": {
			key: subscribed, server: &Evidence{setting: Setting{Readable: true, Refused: true}},
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true},
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
			NewWithT(t).Expect(Judge(server, c.key, audit, now)).To(Equal(c.want))
		})
	}
}
