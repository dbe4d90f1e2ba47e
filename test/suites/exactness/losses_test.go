// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// Besides a burst there are ScaledJobs that want a single Job: a create sent
// twice is one too many there at once.
func TestAnswersGetLost(t *testing.T) {
	t.Parallel()
	const messages, singles = 20, 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	claims := []claim{{scaledJob: newScaledJob(t, namespace, "bursting", 1, messages), jobs: messages}}
	for i := range singles {
		claims = append(claims, claim{scaledJob: newScaledJob(t, namespace, fmt.Sprintf("single-%d", i), 1, 1), jobs: 1})
	}
	for _, c := range claims {
		c.scaledJob.awaitSubscription(t)
	}
	proxy.lag(longLag)
	proxy.losses.follow(everyOther)

	for _, c := range claims {
		g.Expect(c.scaledJob.PushTogether(t.Context(), messages)).To(Succeed())
	}
	prove(t, operator, witness.Row{
		Fault:   "every other create fails: before it is carried out, or after, by a reset, a timeout or a demand to come again",
		Promise: "a create that may have been carried out is sent again by the same name",
	}, claims...)
	g.Expect(proxy.losses.seen()).To(HaveEach(BeNumerically(">", 0)), "losses of each kind")
}

func TestTimeoutsInMidBatch(t *testing.T) {
	skip.UnderShort(t, "TestAnswersGetLost has time-outs too")
	t.Parallel()
	const messages, before = 60, createsAtOnce / 2
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	for name, lost := range map[string]struct {
		fault   string
		creates int
	}{
		"one":      {"one create in mid-batch is carried out, but answered by a timeout", 1},
		"the-rest": {"all creates under way in mid-batch are carried out, but answered by timeouts", createsAtOnce},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			proxy.lag(0)
			s := newScaledJob(t, namespace, name, 1, 2*messages)
			s.awaitSubscription(t)
			// With a Job of its template there, the operator sends all at once.
			g.Expect(s.PushTogether(t.Context(), 1)).To(Succeed())
			g.Expect(s.Witness.AwaitCreated(t.Context(), 1)).To(Succeed())
			proxy.lag(longLag)
			proxy.timeouts.strike(before, lost.creates)

			g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
			prove(t, operator, witness.Row{
				Fault: lost.fault + ", watches 0.5 s late", Promise: "what may have been created counts as created, and is sent again",
			}, claim{scaledJob: s, jobs: 1 + messages})
			made := proxy.timeouts.made()
			// There are fewer if a sender gives up before all are under way, as on a busy machine.
			g.Expect(len(made)).To(And(BeNumerically(">", 0), BeNumerically("<=", lost.creates)), "Jobs whose creates were answered by timeouts")
			g.Expect(s.Witness.Unfinished()).To(ContainElements(made))
		})
	}
}

// loss is what may go wrong with a create.
type loss int

const (
	// answerReset: carried out, but the connection breaks before the answer.
	answerReset loss = iota
	// answerTimeout: carried out, but a gateway answers that it took too long.
	answerTimeout
	// answerRetry: carried out, but a gateway asks to come again, which the
	// client library does by itself.
	answerRetry
	// requestReset: the connection breaks before the API server is reached.
	requestReset

	lossKinds // how many there are
)

// lossPlan says which creates go wrong, and how. They are numbered from 1.
type lossPlan func(create int) (kind loss, lost bool)

// everyOther has each kind of loss in turn.
func everyOther(create int) (kind loss, lost bool) {
	return loss(create / 2 % int(lossKinds)), create%2 == 0
}

var errReset = errors.New("connection reset")

// losses befall the creates of Jobs, once there is a plan.
type losses struct {
	next http.RoundTripper

	mu      sync.Mutex
	plan    lossPlan
	creates int
	counts  [lossKinds]int
}

// follow begins to lose, and to count the creates anew.
func (l *losses) follow(plan lossPlan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan, l.creates = plan, 0
}

// sent is how many creates there were.
func (l *losses) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.creates
}

// seen is how often each kind of loss has happened.
func (l *losses) seen() [lossKinds]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// RoundTrip implements http.RoundTripper.
func (l *losses) RoundTrip(request *http.Request) (*http.Response, error) {
	kind, lost := l.draw(request)
	if lost && kind == requestReset {
		return nil, errReset
	}
	response, err := l.next.RoundTrip(request)
	if err != nil || !lost {
		return response, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	switch kind {
	case answerReset:
		return nil, errReset
	case answerTimeout:
		return gatewayAnswer(request, http.StatusGatewayTimeout, nil), nil
	case answerRetry:
		return gatewayAnswer(request, http.StatusServiceUnavailable, http.Header{"Retry-After": {"0"}}), nil
	default:
		return nil, fmt.Errorf("no such loss: %d", kind)
	}
}

// draw says whether the request is a create that goes wrong, and how.
func (l *losses) draw(request *http.Request) (kind loss, lost bool) {
	if !createsJob(request) {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.creates++
	if l.plan == nil {
		return 0, false
	}
	if kind, lost = l.plan(l.creates); lost {
		l.counts[kind]++
	}
	return kind, lost
}

// createsJob says whether the request is to create a Job, and not only to try it.
func createsJob(request *http.Request) bool {
	return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/jobs") &&
		!request.URL.Query().Has("dryRun")
}

func gatewayAnswer(request *http.Request, code int, header http.Header) *http.Response {
	return &http.Response{
		StatusCode: code, Header: header, Body: http.NoBody, Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}
