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

// ending is a way for a leader to end, and what the gap after it is to be seen beside.
type ending struct {
	name      string
	end       func(*operator.Operator, context.Context) error
	beside    besides
	reference time.Duration
}

// measureFailover has a leader end while another operator stands by, and a message come then. The gap is the time from
// the signal to the leader until the Job is seen. There is no floor: who leads and who waits is a matter of the lease.
// A standby leads once the lease has expired that it saw last, or was released, which it reads at an interval.
func measureFailover(ctx context.Context, log io.Writer, s *setting, _ sizes) (result []comparison, err error) {
	r, err := s.newReplicas(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop(context.WithoutCancel(ctx))) }()
	killed := func(o *operator.Operator, _ context.Context) error { return o.Kill() }
	for _, how := range []ending{
		{"kill -9", killed, "lease duration", leadership.LeaseDuration},
		{"clean stop", (*operator.Operator).Stop, "interval of the standby", leadership.StandbyInterval},
	} {
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
			result = append(result, comparison{work: work, unit: "s", figures: figures{reference, gap, gap / reference}, beside: how.beside})
			work += ", longest"
		}
	}
	return result, r.serves.check(ctx)
}

// replicas are the operator that leads and the one that stands by, and the ScaledJob that they serve.
type replicas struct {
	setting         *setting
	serves          *contender
	leader, standby *operator.Operator
}

// newReplicas returns when the leader is at work. Nobody stands by yet.
func (s *setting) newReplicas(ctx context.Context) (*replicas, error) {
	served, err := newContender(ctx, "failover", s.redis.Client(), s.ours.kube)
	if err != nil {
		return nil, err
	}
	r := &replicas{setting: s, serves: served}
	if r.leader, err = r.start(ctx); err != nil {
		return nil, err
	}
	if err := served.subscribed(ctx); err != nil {
		return nil, errors.Join(err, r.stop(ctx))
	}
	return r, nil
}

func (r *replicas) start(ctx context.Context) (*operator.Operator, error) {
	return operator.Start(ctx, operator.Options{Cluster: r.setting.control, Args: []string{
		"--watch-namespaces=" + r.serves.sj.Namespace,
		"--leader-elect", "--leader-election-namespace=" + operator.Namespace,
	}})
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
