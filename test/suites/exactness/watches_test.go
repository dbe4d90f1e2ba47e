// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
)

func TestWatchesFreeze(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newPair(t, startProxy(t))
	p.proxy.lag(frozen)
	unseen := newScaledJob(t, p.namespace, "unseen", 1, 10)
	unseen.PushTogether(stormPushes)

	storms := p.beginStorms(t.Context())
	g.Expect(storms.Wait()).To(Succeed())
	p.proxy.lag(0)
	p.requireExactly(t, jobwatch.Row{
		Fault:   "watches of Jobs and ScaledJobs stand still for a storm",
		Promise: "nothing is decided on what is known to be stale",
	}, want{scaledJob: unseen, jobs: 10})
}

func TestWatchesExpire(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newPair(t, startProxy(t))
	p.proxy.lag(longLag)

	storms := p.beginStorms(t.Context())
	// Twice, what the watches have not delivered yet is lost for good.
	for _, jobs := range []int{10, 30} {
		g.Expect(p.growing.Jobs.AwaitCreated(t.Context(), jobs)).To(Succeed())
		left := p.proxy.expire("jobs", "scaledjobs")
		// A watch that is just being opened is not ended by the first call.
		g.Eventually(func() int {
			p.proxy.jobs.End()
			p.proxy.scaledJobs.End()
			return left()
		}).WithTimeout(timeout).WithPolling(time.Second).Should(BeZero(), "watches that have not expired")
	}
	g.Expect(storms.Wait()).To(Succeed())
	p.requireExactly(t, jobwatch.Row{
		Fault:   "watches 0.5 s late break in a storm and have expired, so that all is listed again",
		Promise: "what the list shows late is awaited as well",
	})
}

// All other tests need the API server, so that this one is not parallel to any.
func TestAPIServerRestarts(t *testing.T) {
	g := NewWithT(t)
	p := newPair(t, startProxy(t))
	p.proxy.lag(shortLag)

	storms := p.beginStorms(t.Context())
	g.Expect(p.growing.Jobs.AwaitCreated(t.Context(), 10)).To(Succeed())
	g.Expect(control.RestartAPIServer(t.Context())).To(Succeed())
	g.Expect(storms.Wait()).To(Succeed())
	p.requireExactly(t, jobwatch.Row{
		Fault: "kill -9 of the API server in a storm", Promise: "creates that got no answer are sent again by the same names",
	})
}
