// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
)

func TestAlertsThatWereNotEvaluatedAreNotQuiet(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	well := prometheus.Rule{Name: "Well", Health: "ok", Evaluations: 12, For: 600}
	pending := []prometheus.Sample{{Labels: map[string]string{"alertname": "Well"}, Value: 3}}
	text := must.Get(quiet([]prometheus.Rule{well}, pending, time.Hour))(g)
	g.Expect(text).To(MatchRegexp(`Well +evaluated 12 times, 3 samples pending, none firing`))
	text = must.Get(quiet([]prometheus.Rule{well}, pending, 5*time.Minute))(g)
	g.Expect(text).To(HaveSuffix("could not fire in this time: it waits for 10m0s"))
	for _, bad := range [][]prometheus.Rule{
		nil,
		{well, {Name: "Never", Health: "ok"}},
		{well, {Name: "Never", Health: "err", LastError: "many-to-many", Evaluations: 12}},
	} {
		_, err := quiet(bad, nil, time.Hour)
		g.Expect(err).To(HaveOccurred())
	}
}
