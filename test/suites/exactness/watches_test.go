// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

func TestWatchesFreeze(t *testing.T) {
	t.Parallel()
	for name, freeze := range scene.Rows(t, map[string]func(*proxy, time.Duration){
		"of ScaledJobs":          func(p *proxy, lag time.Duration) { p.scaledJobs.Set(lag) },
		"of Jobs and ScaledJobs": (*proxy).lag,
	}, "of Jobs and ScaledJobs") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			p := newPair(t, startProxy(t))
			freeze(p.proxy, frozen)
			unseen := newScaledJob(t, p.namespace, "unseen", 1, 10)
			g.Expect(unseen.PushTogether(t.Context(), stormPushes)).To(Succeed())

			storms := p.beginStorms(t.Context())
			g.Expect(storms.Wait()).To(Succeed())
			freeze(p.proxy, 0)
			p.prove(t, witness.Row{
				Fault:   "watches " + name + " stand still for a storm",
				Promise: "nothing is decided on what is known to be stale",
			}, claim{scaledJob: unseen, jobs: 10})
		})
	}
}

func TestConnectionsBreak(t *testing.T) {
	skip.UnderShort(t, "TestWatchesExpire ends the same watches")
	t.Parallel()
	g := NewWithT(t)
	p := newPair(t, startProxy(t))
	p.proxy.lag(longLag)

	storms := p.beginStorms(t.Context())
	// Twice, at which the watches begin anew.
	for _, jobs := range []int{10, 30} {
		g.Eventually(p.growing.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", jobs))
		p.proxy.disconnect()
	}
	g.Expect(storms.Wait()).To(Succeed())
	p.prove(t, witness.Row{
		Fault: "connections to the API server break in a storm", Promise: "the watches go on where they were",
	})
}

func TestWatchesExpire(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newPair(t, startProxy(t))
	p.proxy.lag(longLag)

	storms := p.beginStorms(t.Context())
	// Twice, what the watches have not delivered yet is lost for good.
	for _, jobs := range []int{10, 30} {
		g.Expect(p.growing.Witness.AwaitCreated(t.Context(), jobs)).To(Succeed())
		left := p.proxy.expire("jobs", "scaledjobs")
		p.proxy.jobs.End()
		p.proxy.scaledJobs.End()
		g.Eventually(left).WithTimeout(timeout).Should(BeZero(), "watches that have not expired")
	}
	g.Expect(storms.Wait()).To(Succeed())
	p.prove(t, witness.Row{
		Fault:   "watches 0.5 s late break in a storm and have expired, so that all is listed again",
		Promise: "what the list shows late is awaited as well",
	})
}
