// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// pair is two ScaledJobs for storms: one that is soon at its limit, and one that gets more and more Jobs. They have a
// namespace and an operator to themselves, which reaches the API server through the proxy.
type pair struct {
	namespace       string
	proxy           *proxy
	operator        *operator.Operator
	capped, growing *scaledJob
}

// newPair creates both, and returns when the operator is subscribed to their queues.
func newPair(t *testing.T, through *proxy) *pair {
	t.Helper()
	p := &pair{namespace: newNamespace(t), proxy: through}
	p.operator = startOperator(t, through, []string{p.namespace})
	p.capped = newScaledJob(t, p.namespace, "capped", 1, 10)
	p.growing = newScaledJob(t, p.namespace, "growing", 40, 100)
	p.capped.awaitSubscription(t)
	p.growing.awaitSubscription(t)
	return p
}

// beginStorms has a storm come to each. Whoever waits for the group waits until both are over.
func (p *pair) beginStorms(ctx context.Context) *errgroup.Group {
	return beginStorms(ctx, p.capped, p.growing)
}

// prove is prove for both after their storms, and for others.
func (p *pair) prove(t *testing.T, fault witness.Row, others ...claim) {
	t.Helper()
	claims := []claim{{scaledJob: p.capped, jobs: 10}, {scaledJob: p.growing, jobs: stormPushes / 40}}
	prove(t, p.operator, fault, append(claims, others...)...)
}

// stormAndWorkBeside has a storm come to each of these, and one to a ScaledJob whose Jobs workers finish. It returns
// how many they finished.
func stormAndWorkBeside(t *testing.T, worked *scaledJob, others ...*scaledJob) (finished int) {
	t.Helper()
	storms := beginStorms(t.Context(), others...)
	storms.Go(func() (err error) {
		finished, err = stormAndWork(t.Context(), worked)
		return err
	})
	NewWithT(t).Expect(storms.Wait()).To(Succeed())
	return finished
}
