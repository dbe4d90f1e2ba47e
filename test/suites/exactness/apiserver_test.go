// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// All other tests need the API server, so that this one is not parallel to any.
func TestAPIServerRestarts(t *testing.T) {
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	capped := newScaledJob(t, namespace, "capped", 1, 10)
	growing := newScaledJob(t, namespace, "growing", 40, 100)
	capped.awaitSubscription(t)
	growing.awaitSubscription(t)
	proxy.lag(shortLag)

	storms := beginStorms(t.Context(), capped, growing)
	g.Expect(growing.Witness.AwaitCreated(t.Context(), 10)).To(Succeed())
	g.Expect(control.RestartAPIServer(t.Context())).To(Succeed())
	g.Expect(storms.Wait()).To(Succeed())
	prove(t, operator, witness.Row{
		Fault: "kill -9 of the API server in a storm", Promise: "creates that got no answer are sent again by the same names",
	},
		claim{scaledJob: capped, jobs: 10},
		claim{scaledJob: growing, jobs: stormPushes / 40})
}
