// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

// An operator ends, and the next one begins to watch, while another server becomes the master.
func TestPromiseIsKeptWhenTheOperatorRestartsDuringAFailover(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	setting, err := faults.NewSetting(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		g.Expect(setting.Stop(ctx)).To(Succeed())
	})
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{})
	fixture := fixtureOf(t, setting, failoverClient(r.Addresses()), usual, at(scaledjobv1.RedisSentinel, r.Addresses()...))
	play(t, fixture, "behind sentinels, operator restarted during a failover", "the next one reads and watches the new master",
		func(ctx context.Context, meanwhile faults.Meanwhile) error {
			err := errors.Join(r.Failover(ctx, r.Sentinels[0]), setting.Restart(ctx), awaitFollowed(ctx, r, fixture), meanwhile(ctx))
			for _, queue := range fixture.Queues {
				queue.Operator = setting.Operator
			}
			return errors.Join(err, writable(ctx, fixture))
		})
}
