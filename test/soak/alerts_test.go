// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/prometheus"
)

func TestAlertsThatWereNotEvaluatedAreNotQuiet(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	well := prometheus.Rule{Name: "Well", Health: "ok", Evaluations: 12}
	text, err := quiet([]prometheus.Rule{well}, []prometheus.Sample{{Labels: map[string]string{"alertname": "Well"}, Value: 3}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(MatchRegexp(`Well +evaluated 12 times, 3 samples pending, none firing`))
	for _, bad := range [][]prometheus.Rule{
		nil,
		{well, {Name: "Never", Health: "ok"}},
		{well, {Name: "Never", Health: "err", LastError: "many-to-many", Evaluations: 12}},
	} {
		_, err := quiet(bad, nil)
		g.Expect(err).To(HaveOccurred())
	}
}
