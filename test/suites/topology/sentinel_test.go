// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

// sentinelFault is a fault of servers that sentinels watch.
type sentinelFault struct {
	name, promise string
	strike        func(ctx context.Context, r *redistest.Replicated, fixture *faults.Fixture, meanwhile faults.Meanwhile) error
}

func sentinelFaults() []sentinelFault {
	const follows = "the new master is used as soon as a sentinel names it"
	return []sentinelFault{
		{"failover by command", follows, func(
			ctx context.Context, r *redistest.Replicated, fixture *faults.Fixture, meanwhile faults.Meanwhile,
		) error {
			return errors.Join(r.Failover(ctx, r.Sentinels[0]), awaitFollowed(ctx, r, fixture), meanwhile(ctx))
		}},
		{"master killed", follows, func(ctx context.Context, r *redistest.Replicated, _ *faults.Fixture, meanwhile faults.Meanwhile) error {
			return errors.Join(r.Servers[0].Kill(), meanwhile(ctx))
		}},
		{"master stopped, wakes as a second one", "the old master is not read", func(
			ctx context.Context, r *redistest.Replicated, fixture *faults.Fixture, meanwhile faults.Meanwhile,
		) error {
			old := r.Servers[0]
			return errors.Join(old.Pause(), awaitOther(ctx, r, old), old.Resume(), mislead(ctx, old, keysOf(fixture)...), meanwhile(ctx))
		}},
		{"all servers and sentinels restarted", "used again when the sentinels name it", func(
			ctx context.Context, r *redistest.Replicated, _ *faults.Fixture, meanwhile faults.Meanwhile,
		) error {
			var err error
			for _, each := range append(r.Servers[:1:1], r.Sentinels...) {
				err = errors.Join(err, each.Restart(ctx))
			}
			return errors.Join(err, meanwhile(ctx))
		}},
		{"sentinels gone", "the master is not used without a sentinel, and used again with one", func(
			ctx context.Context, r *redistest.Replicated, _ *faults.Fixture, meanwhile faults.Meanwhile,
		) error {
			var err error
			for _, each := range r.Sentinels {
				err = errors.Join(err, each.Pause())
			}
			err = errors.Join(err, meanwhile(ctx))
			for _, each := range r.Sentinels {
				err = errors.Join(err, each.Resume())
			}
			return err
		}},
		{"failover while keys are subscribed to", follows, func(
			ctx context.Context, r *redistest.Replicated, fixture *faults.Fixture, meanwhile faults.Meanwhile,
		) error {
			failing := make(chan error, 1)
			go func() { failing <- r.Failover(ctx, r.Sentinels[0]) }()
			for _, name := range []string{"late", "later", "latest"} {
				if _, err := fixture.Add(ctx, name); err != nil {
					return errors.Join(err, <-failing)
				}
			}
			return errors.Join(<-failing, awaitFollowed(ctx, r, fixture), meanwhile(ctx))
		}},
		{"most sentinels gone", "one sentinel is enough", func(
			ctx context.Context, r *redistest.Replicated, _ *faults.Fixture, meanwhile faults.Meanwhile,
		) error {
			return errors.Join(r.Sentinels[0].Kill(), r.Sentinels[1].Kill(), meanwhile(ctx))
		}},
	}
}

// awaitOther waits until a sentinel names another master.
func awaitOther(ctx context.Context, r *redistest.Replicated, old *redistest.Server) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		master, err := r.Master(ctx, r.Sentinels[0])
		if err == nil && master == old {
			err = errors.New("the sentinel names the old master")
		}
		return err
	})
}

// awaitFollowed waits until what the clients of the queues write is on the new master. A failover by command loses what
// they write to the old one until then.
func awaitFollowed(ctx context.Context, r *redistest.Replicated, fixture *faults.Fixture) error {
	if err := awaitOther(ctx, r, r.Servers[0]); err != nil {
		return err
	}
	return sjtest.Await(ctx, func(ctx context.Context) error {
		master, err := r.Master(ctx, r.Sentinels[0])
		if err != nil {
			return err
		}
		for _, q := range fixture.Queues {
			probe := q.Queue + ":followed"
			err := errors.Join(q.Redis.Set(ctx, probe, 1, 0).Err(), master.Client().Get(ctx, probe).Err())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestSentinelFaults(t *testing.T) {
	t.Parallel()
	name := func(fault sentinelFault) string { return fault.name }
	for _, fault := range skip.AllButNamed(t, sentinelFaults(), name, "master killed") {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for mode, changes := range map[string][]sjtest.Change{"notifications": nil, "tracking": {sjtest.Tracking}} {
				t.Run(mode, func(t *testing.T) {
					t.Parallel()
					r := redistest.NewReplicated(t, redistest.ReplicatedOptions{})
					fixture := behindSentinels(t, r, changes...)
					NewWithT(t).Expect(r.AwaitFormed(t.Context())).To(Succeed())
					play(t, fixture, "behind sentinels, "+fault.name+", "+mode, fault.promise, func(ctx context.Context, meanwhile faults.Meanwhile) error {
						return errors.Join(fault.strike(ctx, r, fixture, meanwhile), writable(ctx, fixture))
					})
				})
			}
		})
	}
}
