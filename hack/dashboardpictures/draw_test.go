// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/dashboards"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// A panel of another name would be drawn without lines.
func TestThePanelsExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	queries := must.Get(dashboards.Read("../../config/grafana"))(g)
	for name, panels := range pictures {
		for _, panel := range panels {
			g.Expect(queriesOf(queries, name, panel[0])).Error().NotTo(HaveOccurred())
		}
	}
	_, err := queriesOf(queries, "operator", "Renamed")
	g.Expect(err).To(MatchError(`the dashboard operator has no panel "Renamed" with a query`))
}
