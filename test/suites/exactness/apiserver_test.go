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
	p := newPair(t, startProxy(t))
	p.proxy.lag(shortLag)

	storms := p.beginStorms(t.Context())
	g.Expect(p.growing.Witness.AwaitCreated(t.Context(), 10)).To(Succeed())
	g.Expect(control.RestartAPIServer(t.Context())).To(Succeed())
	g.Expect(storms.Wait()).To(Succeed())
	p.prove(t, witness.Row{
		Fault: "kill -9 of the API server in a storm", Promise: "creates that got no answer are sent again by the same names",
	})
}
