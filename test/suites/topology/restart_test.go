// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

// An operator ends, and the next one begins to watch, while another server becomes the master.
func TestOperatorRestartsDuringAFailover(t *testing.T) {
	skip.UnderShort(t, "needs a control plane of its own; see TestRedisFaultsFromTheStart")
	t.Parallel()
	setting := newSetting(t)
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

// The operator and the master stop as one, as on one host. When both go on, another server has been the master for long, and
// the old one does not know yet.
func TestOperatorStopsTogetherWithTheMaster(t *testing.T) {
	t.Parallel()
	const forgotten = 7 * time.Second // Longer than an answer of a sentinel counts.
	setting := newSetting(t)
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{})
	fixture := fixtureOf(t, setting, failoverClient(r.Addresses()), usual, at(scaledjobv1.RedisSentinel, r.Addresses()...))
	NewWithT(t).Expect(r.AwaitFormed(t.Context())).To(Succeed())
	play(t, fixture, "behind sentinels, operator and master stopped", "the old master is not read",
		func(ctx context.Context, meanwhile faults.Meanwhile) error {
			old, stopped := r.Servers[0], time.Now()
			err := errors.Join(syscall.Kill(setting.Operator.PID(), syscall.SIGSTOP), old.Pause(), awaitOther(ctx, r, old))
			err = errors.Join(err, scene.Pause(ctx, forgotten-time.Since(stopped)), old.Resume())
			for _, key := range keysOf(fixture) { // Nobody hears of them any more.
				err = errors.Join(err, old.Client().LPush(ctx, key, "lost", "lost", "lost", "lost", "lost", "lost").Err())
			}
			err = errors.Join(err, syscall.Kill(setting.Operator.PID(), syscall.SIGCONT))
			return errors.Join(err, mislead(ctx, old, keysOf(fixture)...), awaitFollowed(ctx, r, fixture), meanwhile(ctx))
		})
}

// newSetting returns an operator of the test, with a control plane of its own.
func newSetting(t *testing.T) *faults.Setting {
	t.Helper()
	g := NewWithT(t)
	setting, err := faults.NewSetting(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		g.Expect(setting.Stop(ctx)).To(Succeed())
	})
	return setting
}
