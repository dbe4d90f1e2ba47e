// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

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
	seed := rand.Uint64()
	t.Logf("seed of the refusals: %d", seed)
	proxy.refusals.begin(seed)
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
	g.Eventually(proxy.refusals.seen).WithTimeout(timeout).Should(HaveEach(BeNumerically(">", 0)), "refusals of each kind")
	proxy.refusals.end()
	p.prove(t, witness.Row{
		Fault:   "a fifth of all requests is refused by 429, 500 or 503 in a storm, watches 0.5 s late",
		Promise: "nothing is decided on a failed list, and what was refused is tried again",
	}, claim{scaledJob: worked, jobs: 10 + finished + more})
}

// requestKind is what a request asks for.
type requestKind int

const (
	createRequest requestKind = iota
	deleteRequest
	readRequest
	statusRequest
	watchRequest

	requestKinds // how many there are
)

// refusalInterval is the mean number of requests to one that is refused.
const refusalInterval = 5

// refusal is an answer of an API server that is too busy, or not well.
type refusal struct {
	code   int
	header http.Header
}

var refusalAnswers = []refusal{
	{http.StatusTooManyRequests, nil},
	{http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}}},
	{http.StatusInternalServerError, nil},
	{http.StatusServiceUnavailable, nil},
	{http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}}},
}

// refusals befall requests at random, and the first of each kind for certain,
// from begin to end. What is refused is not carried out.
type refusals struct {
	next http.RoundTripper

	mu     sync.Mutex
	random *rand.Rand // nil while nothing is refused
	counts [requestKinds]int
}

func (r *refusals) begin(seed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.random = rand.New(rand.NewPCG(seed, seed))
}

func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.random = nil
}

// seen is how many requests of each kind were refused.
func (r *refusals) seen() [requestKinds]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// RoundTrip implements http.RoundTripper.
func (r *refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	if answer, refused := r.draw(request); refused {
		return gatewayAnswer(request, answer.code, answer.header.Clone()), nil
	}
	return r.next.RoundTrip(request)
}

func (r *refusals) draw(request *http.Request) (answer refusal, refused bool) {
	kind, affected := kindOf(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.random == nil || !affected || (r.counts[kind] > 0 && r.random.IntN(refusalInterval) > 0) {
		return refusal{}, false
	}
	r.counts[kind]++
	return refusalAnswers[r.random.IntN(len(refusalAnswers))], true
}

// kindOf is what the request asks for, if it is about Jobs or ScaledJobs.
func kindOf(request *http.Request) (kind requestKind, affected bool) {
	affected = strings.Contains(request.URL.Path, "/jobs") || strings.Contains(request.URL.Path, "/scaledjobs")
	switch {
	case request.Method == http.MethodPost:
		return createRequest, affected
	case request.Method == http.MethodDelete:
		return deleteRequest, affected
	case request.Method == http.MethodPatch:
		return statusRequest, affected
	case watches(request):
		return watchRequest, affected
	default:
		return readRequest, affected
	}
}
