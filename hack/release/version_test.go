// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for described, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"1.2.3":                   "1.2.3",
		"v1.2.3-rc.1":             "1.2.3-rc.1",
		"v1.2.3-dirty":            "1.2.3-dirty",
		"v1.2.3-4-gabc1234":       "1.2.3-4-gabc1234",
		"v1.2.3-4-gabc1234-dirty": "1.2.3-4-gabc1234-dirty",
		"v1.2.3-rc.1-4-gabc1234":  "1.2.3-rc.1-4-gabc1234",
		"108db9f":                 "0.0.0-g108db9f",
		"0123456":                 "0.0.0-g0123456",
		"abcdef012345-dirty":      "0.0.0-gabcdef012345-dirty",
		"dev":                     "0.0.0-dev",
		"my.branch-2":             "0.0.0-my.branch-2",
	} {
		NewWithT(t).Expect(semantic(described)).To(Equal(want), described)
	}
}

func TestVersionsAreStable(t *testing.T) {
	t.Parallel()
	for _, described := range []string{"v1.2.3", "108db9f", "dev", "v1.2.3-4-gabc-dirty"} {
		g := NewWithT(t)
		once := must.Get(semantic(described))(g)
		g.Expect(semantic("v"+once)).To(Equal(once), "the Dockerfile gets the version with its v")
	}
}

func TestWhatIsNoVersion(t *testing.T) {
	t.Parallel()
	for _, described := range []string{"", "v1", "1.2", "v1.2.3.4", "v01.2.3", "v1.2.3+build", "1.2.3-", "a b", "-dev", "dev_1", "v1.2.x", "dev/1", "a..b"} {
		_, err := semantic(described)
		NewWithT(t).Expect(err).To(MatchError("VERSION="+described+" is not a version; write VERSION=v1.2.3 or VERSION=v1.2.3-rc.1"), described)
	}
}
