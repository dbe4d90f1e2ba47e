// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/inject"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// The operator starts, and meets a storm, while the API server is too busy for
// much of what it asks.
func TestRefusalsAtRandom(t *testing.T) {
	skip.UnderShort(t, "TestAnswersGetLost has each kind of failed create once")
	t.Parallel()
	g := NewWithT(t)
	proxy := startProxy(t)
	first, end := proxy.refuse()
	p := newPair(t, proxy)
	worked := newScaledJob(t, p.namespace, "worked", 1, 10)
	worked.awaitSubscription(t)
	proxy.lag(longLag)

	finished := stormAndWorkBeside(t, worked, p.capped, p.growing)
	// However few the workers have done: enough finish for some to be pruned.
	g.Expect(worked.Witness.AwaitCreated(t.Context(), 10+finished)).To(Succeed())
	g.Expect(worked.Witness.CatchUp(t.Context())).To(Succeed())
	const more = 5
	for _, name := range worked.Witness.Unfinished()[:more] {
		g.Expect(worked.finish(t.Context(), name)).To(Succeed())
	}
	for _, refused := range first {
		g.Eventually(refused.Hits).WithTimeout(timeout).Should(Equal(1), "refusals of each kind")
	}
	end()
	p.prove(t, witness.Row{
		Fault:   "a fifth of all requests is refused by 429, 500 or 503 in a storm, watches 0.5 s late",
		Promise: "nothing is decided on a failed list, and what was refused is tried again",
	}, claim{scaledJob: worked, jobs: 10 + finished + more})
}

// refusalInterval is the mean number of requests to one that is refused.
const refusalInterval = 5

// refuse has requests about Jobs and ScaledJobs refused at random, and the first of each kind for certain, until end is
// called. First are the rules of the latter.
func (p *proxy) refuse() (first []*inject.Rule, end func()) {
	busy := inject.OneOf(
		inject.Status(http.StatusTooManyRequests), inject.Status(http.StatusTooManyRequests, "Retry-After", "1"),
		inject.Status(http.StatusServiceUnavailable), inject.Status(http.StatusServiceUnavailable, "Retry-After", "1"),
		inject.Status(http.StatusInternalServerError))
	about := func(request *http.Request) bool {
		return strings.Contains(request.URL.Path, "/jobs") || strings.Contains(request.URL.Path, "/scaledjobs")
	}
	for _, kind := range []struct {
		method string
		watch  bool
	}{{http.MethodPost, false}, {http.MethodDelete, false}, {http.MethodPatch, false}, {http.MethodGet, false}, {http.MethodGet, true}} {
		first = append(first, p.Add(&inject.Rule{Times: 1, Answer: busy, Match: func(request *http.Request) bool {
			return about(request) && request.Method == kind.method && inject.Watches(request) == kind.watch
		}}))
	}
	others := p.Add(&inject.Rule{Answer: busy, Match: func(request *http.Request) bool {
		return about(request) && rand.IntN(refusalInterval) == 0
	}})
	return first, others.End
}
