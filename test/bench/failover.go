// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"miracle.dev/scaledjob-operator/internal/leadership"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// failovers is how often a leader ends in each way.
const failovers = 3

// ending is a way for a leader to end, and what the gap after it is to be seen beside. most is what is aimed at; 0 means
// that nothing is.
type ending struct {
	name      string
	end       func(*operator.Operator, context.Context) error
	beside    besides
	reference time.Duration
	most      time.Duration
}

// lease is a Lease that leaders hold: the flags for it, and the ways in which they end.
type lease struct {
	name    string
	flags   []string
	endings []ending
}

func leases() []lease {
	const besideLease, added, short = "lease duration", time.Second, 5 * time.Second
	killed := func(o *operator.Operator, _ context.Context) error { return o.Kill() }
	return []lease{
		{"failover", nil, []ending{
			{"kill -9", killed, besideLease, leadership.LeaseDuration, leadership.LeaseDuration + added},
			{"clean stop", (*operator.Operator).Stop, "interval of the standby", leadership.StandbyInterval, 0},
		}},
		// As in the documentation of the installation.
		{
			"failover-short",
			[]string{"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"},
			[]ending{{"kill -9 with a Lease of 5 s", killed, besideLease, short, short + added}},
		},
	}
}

// measureFailover has a leader end while another operator stands by, and a message come then. The gap is the time from
// the signal to the leader until the Job is seen. There is no floor: who leads and who waits is a matter of the lease.
// A standby leads once the lease has expired that it saw last, or was released, which it reads at an interval.
func measureFailover(ctx context.Context, log io.Writer, s *setting, _ sizes) (result []comparison, err error) {
	for _, each := range leases() {
		taken, err := s.failOvers(ctx, log, each)
		if err != nil {
			return nil, err
		}
		result = append(result, taken...)
	}
	return result, nil
}

// failOvers has leaders end that hold this Lease.
func (s *setting) failOvers(ctx context.Context, log io.Writer, hold lease) (result []comparison, err error) {
	r, err := s.newReplicas(ctx, hold)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop(context.WithoutCancel(ctx))) }()
	for _, how := range hold.endings {
		var gaps []float64
		for i := range failovers {
			_, _ = fmt.Fprintf(log, "ending the leader by a %s, round %d of %d …\n", how.name, i+1, failovers)
			gap, err := r.failOver(ctx, how)
			if err != nil {
				return nil, err
			}
			gaps = append(gaps, gap.Seconds())
		}
		work := how.name + " of the leader → Job by the next"
		reference := how.reference.Seconds()
		for _, gap := range []float64{quantile(gaps, 0.5), quantile(gaps, 1)} {
			result = append(result, comparison{
				work: work, unit: "s", figures: figures{reference, gap, gap / reference}, beside: how.beside, most: how.most.Seconds(),
			})
			work, how.most = work+", longest", 0
		}
	}
	return result, r.serves.check(ctx)
}

// replicas are the operator that leads and the one that stands by, and the ScaledJob that they serve.
type replicas struct {
	setting         *setting
	serves          *contender
	flags           []string
	leader, standby *operator.Operator
}

// newReplicas returns when the leader is at work. Nobody stands by yet.
func (s *setting) newReplicas(ctx context.Context, hold lease) (*replicas, error) {
	served, err := newContender(ctx, hold.name, s.redis.Client(), s.ours.kube)
	if err != nil {
		return nil, err
	}
	r := &replicas{setting: s, serves: served, flags: hold.flags}
	if r.leader, err = r.start(ctx); err != nil {
		return nil, err
	}
	if err := served.subscribed(ctx); err != nil {
		return nil, errors.Join(err, r.stop(ctx))
	}
	return r, nil
}

func (r *replicas) start(ctx context.Context) (*operator.Operator, error) {
	return operator.Start(ctx, operator.Options{Cluster: r.setting.control, Args: append([]string{
		"--watch-namespaces=" + r.serves.sj.Namespace,
		"--leader-elect", "--leader-election-namespace=" + operator.Namespace,
	}, r.flags...)})
}

// failOver has an operator stand by and then the leader end, and returns how long it takes until the other has created
// a Job.
func (r *replicas) failOver(ctx context.Context, how ending) (gap time.Duration, err error) {
	if _, err := r.serves.serve(ctx, 1); err != nil {
		return 0, err
	}
	if r.standby, err = r.start(ctx); err != nil {
		return 0, err
	}
	if err := scene.Pause(ctx, settleTime); err != nil {
		return 0, err
	}
	begun := time.Now()
	err = how.end(r.leader, ctx)
	r.leader, r.standby = r.standby, nil
	if err != nil {
		return 0, err
	}
	ended := time.Since(begun)
	took, err := r.serves.serve(ctx, 1)
	return ended + took, err
}

// stop ends the operators, and leaves nothing behind.
func (r *replicas) stop(ctx context.Context) error {
	var errs []error
	for _, running := range []*operator.Operator{r.leader, r.standby} {
		if running != nil {
			errs = append(errs, running.Stop(ctx))
		}
	}
	return errors.Join(append(errs, r.serves.remove(ctx), r.serves.clear(ctx))...)
}
