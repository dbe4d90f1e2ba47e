// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
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
		"of Jobs":                func(p *proxy, lag time.Duration) { p.jobs.Set(lag) },
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
	// What the watches have not delivered yet is lost for good: once with -short, otherwise twice. A watch that breaks within
	// an event is listed again without an attempt to go on, so connections are broken until one has gone on.
	moments := []int{10, 30}
	if testing.Short() {
		moments = moments[:1] // Each list that follows comes later, since the operator waits longer before it tries again.
	}
	for _, jobs := range moments {
		g.Expect(p.growing.Witness.AwaitCreated(t.Context(), jobs)).To(Succeed())
		p.proxy.expiries.enable()
		for _, resource := range []string{"jobs", "scaledjobs"} {
			g.Eventually(func() int {
				p.proxy.disconnect()
				return p.proxy.expiries.of(resource)
			}).WithTimeout(timeout).WithPolling(time.Second).Should(BeNumerically(">", 0), "expired watches of %s", resource)
		}
	}
	g.Expect(storms.Wait()).To(Succeed())
	p.prove(t, witness.Row{
		Fault:   "watches 0.5 s late break in a storm and have expired, so that all is listed again",
		Promise: "what the list shows late is awaited as well",
	})
}

// expiries make watches too old to go on, once enabled. One that begins with a
// list is none.
type expiries struct {
	next http.RoundTripper

	mu     sync.Mutex
	counts map[string]int // by resource; nil while none expires
}

// expired is what an API server answers to a watch that is too old.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`

// enable begins to let watches expire.
func (e *expiries) enable() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts = map[string]int{}
}

// of is how many watches of the resource have expired.
func (e *expiries) of(resource string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[resource]
}

// RoundTrip implements http.RoundTripper.
func (e *expiries) RoundTrip(request *http.Request) (*http.Response, error) {
	if !e.strike(request) {
		return e.next.RoundTrip(request)
	}
	response := gatewayAnswer(request, http.StatusOK, http.Header{"Content-Type": {"application/json"}})
	response.Body = io.NopCloser(strings.NewReader(expired))
	return response, nil
}

func (e *expiries) strike(request *http.Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil || !watches(request) || request.URL.Query().Has("sendInitialEvents") {
		return false
	}
	e.counts[path.Base(request.URL.Path)]++
	return true
}

func watches(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }
