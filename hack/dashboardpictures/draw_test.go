// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/dashboards"
)

// A panel of another name would be drawn without lines.
func TestThePanelsExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	queries, err := dashboards.Read("../../config/grafana")
	g.Expect(err).NotTo(HaveOccurred())
	for name, panels := range pictures {
		for _, panel := range panels {
			_, err := queriesOf(queries, name, panel[0])
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	_, err = queriesOf(queries, "operator", "Renamed")
	g.Expect(err).To(MatchError(`the dashboard operator has no panel "Renamed" with a query`))
}
