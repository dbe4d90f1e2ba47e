// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestParsePrefixes(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"":                                {},
		" , ":                             {},
		"10.0.0.0/8":                      {"10.0.0.0/8"},
		"10.0.0.0/8, fd00::/8,":           {"10.0.0.0/8", "fd00::/8"},
		"10.0.0.5":                        {"10.0.0.5/32"},
		"fd00::5":                         {"fd00::5/128"},
		"::ffff:10.0.0.0/104":             {"10.0.0.0/8"},
		"::ffff:10.0.0.5":                 {"10.0.0.5/32"},
		"::ffff:0:0/96":                   {"0.0.0.0/0"},
		"0.0.0.0/0,::/0":                  {"0.0.0.0/0", "::/0"},
		"FD00::/8":                        {"fd00::/8"},
		"2001:0db8:0000::/48":             {"2001:db8::/48"},
		"::ffff:169.254.169.254,::ffff:1": {"169.254.169.254/32", "::ffff:1/128"},
	} {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			parsed := must.Get(dialguard.ParsePrefixes(list))(g)
			got := []string{}
			for _, prefix := range parsed {
				got = append(got, prefix.String())
			}
			g.Expect(got).To(Equal(want))
		})
	}
}

func TestParsePrefixesSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"redis":                     `"redis" is neither`,
		"10.0.0.0/8,ten":            `"ten" is neither`,
		"10.0.0.0/33":               `"10.0.0.0/33" is neither`,
		"10.0.0.0/-1":               "is neither",
		"10.0.0.0/":                 "is neither",
		"10.0.0":                    "is neither",
		"fe80::1%eth0":              "is neither",
		"fe80::%eth0/10":            "is neither",
		"10.0.0.0/8/8":              "is neither",
		"10.0.0.5/8":                "write 10.0.0.0/8, or 10.0.0.5 for the single address",
		"fd00::5/64":                "write fd00::/64",
		"::ffff:10.0.0.5/104":       "has bits set after the prefix",
		"::ffff:0:0/90":             "has bits set after the prefix",
		"10.0.0.0-10.255.255.255":   "is neither",
		"10.0.0.0/8 192.168.0.0/16": "is neither",
	} {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			parsed, err := dialguard.ParsePrefixes(list)
			g.Expect(err).To(MatchError(ContainSubstring(says)))
			g.Expect(parsed).To(BeEmpty())
		})
	}
}
