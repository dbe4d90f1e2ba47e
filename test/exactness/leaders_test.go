// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/operator"
	"miracle.dev/scaledjob-operator/test/witness"
)

// Two operators without leader election work for the same ScaledJobs at once, as
// those of two versions do for a moment, until one of them ends. In a storm one
// ScaledJob is at its limit, and the slots of another are freed at random.
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, *operator.Operator) error{
		"SIGTERM": func(ctx context.Context, o *operator.Operator) error { return o.Stop(ctx) },
		"kill -9": func(_ context.Context, o *operator.Operator) error { return o.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const messages = 500
			g := NewWithT(t)
			namespace, proxies := newNamespace(t), [2]*proxy{startProxy(t), startProxy(t)}
			ending := startOperator(t, proxies[0], []string{namespace})
			staying := startOperator(t, proxies[1], []string{namespace})
			bursting := newSubject(t, namespace, "bursting", 1, messages)
			capped := newSubject(t, namespace, "capped", 1, 10)
			worked := newSubject(t, namespace, "worked", 1, 10)
			for _, s := range []*subject{bursting, capped, worked} {
				g.Eventually(s.listeners).WithContext(t.Context()).WithTimeout(timeout).Should(BeEquivalentTo(2))
			}
			for _, p := range proxies {
				p.lag(longLag)
			}

			storms, ctx := errgroup.WithContext(t.Context())
			storms.Go(func() error { return bursting.burst(ctx, messages) })
			storms.Go(func() error { return capped.storm(ctx) })
			var finished int
			storms.Go(func() (err error) {
				finished, err = stormAndWork(ctx, worked)
				return err
			})
			g.Expect(worked.witness.AwaitCreated(t.Context(), 20)).To(Succeed())
			g.Expect(end(t.Context(), ending)).To(Succeed())
			g.Expect(storms.Wait()).To(Succeed())
			prove(t, staying, witness.Row{
				Fault:   "two operators at work at once in a burst and a storm, watches 0.5 s late; one ends by " + name,
				Promise: "no Job is created by both",
			},
				claim{subject: bursting, jobs: messages},
				claim{subject: capped, jobs: 10},
				claim{subject: worked, jobs: 10 + finished})
		})
	}
}
