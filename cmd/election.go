// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	clientelection "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"miracle.dev/scaledjob-operator/internal/leadership"
)

// leaderElectionID is the name of the lease.
const leaderElectionID = "scaledjob-operator.batch.miracle.dev"

// bindElection binds the flags that say whether and how a leader is elected.
func (o *options) bindElection(flags *flag.FlagSet) {
	flags.BoolVar(&o.leaderElect, "leader-elect", false,
		"Elect a leader, so that only one of several replicas is at work.")
	flags.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "",
		"The namespace of the lease. Its default is the namespace that the operator runs in; outside a cluster it must be given.")
	flags.DurationVar(&o.election.LeaseDuration, "leader-elect-lease-duration", leadership.LeaseDuration,
		"How long the other replicas wait after the last renewal of the lease before one of them takes it. Whole seconds.")
	flags.DurationVar(&o.election.RenewDeadline, "leader-elect-renew-deadline", leadership.RenewDeadline,
		"How long the leader tries to renew the lease before it exits. Shorter than -leader-elect-lease-duration.")
	flags.DurationVar(&o.election.RetryPeriod, "leader-elect-retry-period", leadership.RetryPeriod,
		"How often the leader renews the lease, and the other replicas try to take it.")
}

// checkElection returns an error for timings with which the lease could not be kept, or no work could be done for certain.
func checkElection(timing leadership.Timing) error {
	const leaseDuration, renewDeadline, retryPeriod = "-leader-elect-lease-duration", "-leader-elect-renew-deadline", "-leader-elect-retry-period"
	for _, positive := range []struct {
		flag  string
		value time.Duration
	}{{leaseDuration, timing.LeaseDuration}, {renewDeadline, timing.RenewDeadline}, {retryPeriod, timing.RetryPeriod}} {
		if positive.value <= 0 {
			return fmt.Errorf("invalid value for flag %s: must be positive", positive.flag)
		}
	}
	// What lies between two renewals at the most, as client-go has it.
	apart := time.Duration(clientelection.JitterFactor * float64(timing.RetryPeriod))
	switch {
	case timing.LeaseDuration%time.Second != 0:
		return fmt.Errorf("invalid value for flag %s: must be whole seconds, since a Lease has no fractions", leaseDuration)
	case timing.RenewDeadline <= apart:
		return fmt.Errorf("invalid value for flag %s: must be more than %v, which is 1.2 times %s; raise the one or lower the other",
			renewDeadline, apart, retryPeriod)
	case timing.LeaseDuration <= timing.RenewDeadline:
		return fmt.Errorf("invalid value for flag %s: must be more than %v, which is %s; raise the one or lower the other",
			leaseDuration, timing.RenewDeadline, renewDeadline)
	case timing.Certain() <= apart:
		// The same for a lease that is longer by as much as this one falls short, and the next whole second.
		least := (timing.LeaseDuration + apart - timing.Certain()).Truncate(time.Second) + time.Second
		return fmt.Errorf("invalid value for flag %s: must be at least %v, so that creates of Jobs end before another replica may lead, "+
			"and the lease is renewed before; raise it or lower %s", leaseDuration, least, retryPeriod)
	}
	return nil
}

// newLease makes the lease to elect a leader by, nil if there is to be no election.
func newLease(cluster *rest.Config, options options) (*leadership.Lease, error) {
	lock, err := leaderelection.NewResourceLock(cluster, silent{}, leaderelection.Options{
		LeaderElection:          options.leaderElect,
		LeaderElectionID:        leaderElectionID,
		LeaderElectionNamespace: options.leaderElectionNamespace,
		RenewDeadline:           options.election.RenewDeadline,
	})
	if err != nil || lock == nil {
		return nil, err
	}
	return leadership.NewLease(lock, options.election), nil
}

// silent provides recorders of no events: the lease tells who leads.
type silent struct{ recorder.Provider }

func (silent) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// electBy has the manager elect its leader by the lease.
func electBy(lease *leadership.Lease, timing leadership.Timing, options *ctrl.Options) {
	if lease == nil {
		return
	}
	options.LeaderElection, options.LeaderElectionResourceLockInterface = true, lease
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &timing.LeaseDuration, &timing.RenewDeadline, &timing.RetryPeriod
}

// within runs work until it ends, or until the lease has run out. The process must end then, with everything that work has under way, even
// while it is stopping.
func within(ctx context.Context, lease *leadership.Lease, work func(context.Context) error) error {
	if lease == nil {
		return work(ctx)
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	ranOut := make(chan error, 1)
	go func() { ranOut <- lease.Watch(watching) }()
	select {
	case err := <-ended:
		return err
	case err := <-ranOut:
		return err
	}
}
