// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/witness"
)

const (
	shortLag = 100 * time.Millisecond
	longLag  = 500 * time.Millisecond
	// frozen is a lag that outlives the test.
	frozen = time.Hour
)

func TestBurst(t *testing.T) {
	t.Parallel()
	const messages = 1000
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s := newSubject(t, namespace, "bursting", 1, messages)
	s.awaitSubscription(t)
	proxy.lag(longLag)

	g.Expect(s.burst(t.Context(), messages)).To(Succeed())
	prove(t, operator, witness.Row{
		Fault: "a burst of 1,000, watches 0.5 s late", Promise: "no Job is created twice",
	}, claim{subject: s, jobs: messages})
}

// Besides a burst there are ScaledJobs that want a single Job: a create sent
// twice is one too many there at once.
func TestAnswersGetLost(t *testing.T) {
	t.Parallel()
	const messages, singles = 20, 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	claims := []claim{{subject: newSubject(t, namespace, "bursting", 1, messages), jobs: messages}}
	for i := range singles {
		claims = append(claims, claim{subject: newSubject(t, namespace, fmt.Sprintf("single-%d", i), 1, 1), jobs: 1})
	}
	for _, c := range claims {
		c.subject.awaitSubscription(t)
	}
	proxy.lag(longLag)
	proxy.losses.follow(everyOther)

	for _, c := range claims {
		g.Expect(c.subject.burst(t.Context(), messages)).To(Succeed())
	}
	prove(t, operator, witness.Row{
		Fault:   "every other create fails: before it is carried out, or after, by a reset, a timeout or a demand to come again",
		Promise: "a create that may have been carried out is sent again by the same name",
	}, claims...)
	g.Expect(proxy.losses.seen()).To(HaveEach(BeNumerically(">", 0)), "losses of each kind")
}

func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	capped := newSubject(t, namespace, "capped", 1, 10)
	growing := newSubject(t, namespace, "growing", 40, 100)
	capped.awaitSubscription(t)
	growing.awaitSubscription(t)
	proxy.lag(longLag)

	storms, ctx := errgroup.WithContext(t.Context())
	storms.Go(func() error { return capped.storm(ctx) })
	storms.Go(func() error { return growing.storm(ctx) })
	// Twice, at which the watches begin anew.
	for _, jobs := range []int{10, 30} {
		g.Eventually(growing.witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", jobs))
		proxy.disconnect()
	}
	g.Expect(storms.Wait()).To(Succeed())
	prove(t, operator, witness.Row{
		Fault: "connections to the API server break in a storm", Promise: "the watches go on where they were",
	},
		claim{subject: capped, jobs: 10},
		claim{subject: growing, jobs: stormPushes / 40})
}
