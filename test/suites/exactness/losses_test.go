// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/inject"
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
	losses := []*inject.Rule{
		{When: inject.After, Answer: inject.Status(http.StatusGatewayTimeout)},
		{When: inject.After, Answer: inject.Status(http.StatusServiceUnavailable, "Retry-After", "0")}, // The client library retries.
		{When: inject.Before, Answer: inject.Reset},
		{When: inject.After, Answer: inject.Reset},
	}
	for i, loss := range losses { // Every other create gets lost, in each of these ways in turn.
		loss.Match, loss.Skip, loss.Every = inject.CreatesJob, 1+2*i, 2*len(losses)
		proxy.Add(loss)
	}

	for _, c := range claims {
		g.Expect(c.scaledJob.PushTogether(t.Context(), messages)).To(Succeed())
	}
	prove(t, operator, witness.Row{
		Fault:   "every other create fails: before it is carried out, or after, by a reset, a timeout or a demand to come again",
		Promise: "a create that may have been carried out is sent again by the same name",
	}, claims...)
	for _, loss := range losses {
		g.Expect(loss.Hits()).To(BeNumerically(">", 0), "losses of each kind")
	}
}

// All creates under way are carried out, and answered by timeouts.
func TestTimeoutsInMidBatch(t *testing.T) {
	skip.UnderShort(t, "TestAnswersGetLost has time-outs too")
	t.Parallel()
	const messages, before = 60, createsAtOnce / 2
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "bursting", 1, 2*messages)
	s.awaitSubscription(t)
	// With a Job of its template there, the operator sends all at once.
	g.Expect(s.PushTogether(t.Context(), 1)).To(Succeed())
	g.Expect(s.Witness.AwaitCreated(t.Context(), 1)).To(Succeed())
	proxy.lag(longLag)
	// None of them is answered before they are together, or else the operator would send no others.
	late := proxy.Add(&inject.Rule{
		Match: inject.CreatesJob, Skip: before, Times: createsAtOnce, When: inject.Hold,
		Answer: inject.Status(http.StatusGatewayTimeout),
	})

	g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	g.Eventually(late.Held).WithTimeout(timeout).Should(Equal(createsAtOnce))
	g.Expect(late.Release()).To(Succeed())
	prove(t, operator, witness.Row{
		Fault:   "all creates under way in mid-batch are carried out, but answered by timeouts, watches 0.5 s late",
		Promise: "what may have been created counts as created, and is sent again",
	}, claim{scaledJob: s, jobs: 1 + messages})
	g.Expect(late.Codes()).To(ContainElement(http.StatusCreated), "creates that were carried out, and answered by timeouts")
}
