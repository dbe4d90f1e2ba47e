// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	clientelection "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"miracle.dev/scaledjob-operator/internal/leadership"
)

// defaultLeaderElectionID is the name of the Lease, unless a flag says otherwise.
const defaultLeaderElectionID = "scaledjob-operator.batch.miracle.dev"

// bindElection defines the flags of leader election.
func (o *options) bindElection(flags *flag.FlagSet) {
	flags.BoolVar(&o.leaderElect, "leader-elect", false,
		"Elect a leader, and work only as the leader. Required if there is more than one replica.")
	flags.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "",
		"The `namespace` of the Lease. Required with -leader-elect outside a cluster. "+
			"(default the namespace of the Pod)")
	flags.StringVar(&o.leaderElectionID, "leader-election-id", defaultLeaderElectionID,
		"The `name` of the Lease. Replicas with the same Lease elect one leader, so installations that watch different "+
			"namespaces need different names, or different namespaces of the Lease.")
	flags.DurationVar(&o.election.LeaseDuration, "leader-elect-lease-duration", leadership.LeaseDuration,
		"How long other replicas wait after the last renewal of the Lease before one of them becomes leader. "+
			"Must be whole seconds, and longer than -leader-elect-renew-deadline.")
	flags.DurationVar(&o.election.RenewDeadline, "leader-elect-renew-deadline", leadership.RenewDeadline,
		"How long the leader tries to renew the Lease before it exits. "+
			"Must be longer than 1.2 times -leader-elect-retry-period.")
	flags.DurationVar(&o.election.RetryPeriod, "leader-elect-retry-period", leadership.RetryPeriod,
		"How long the leader waits between two renewals of the Lease.")
}

const (
	// longestElection bounds the flags of the election: a Lease stores its duration as a 32-bit number of seconds.
	longestElection = time.Hour
	// shortestRetry is the shortest time between two renewals of the Lease.
	shortestRetry = 100 * time.Millisecond
)

// checkLeaderElectionID returns an error for a value that can't be the name of a Lease.
func checkLeaderElectionID(id string) error {
	if faults := validation.IsDNS1123Subdomain(id); len(faults) > 0 {
		return fmt.Errorf("invalid value for flag -leader-election-id: %q is not the name of a Lease: %s", id, faults[0])
	}
	return nil
}

// checkElection returns an error for timings with which the leader could not renew the Lease in time, or could never be
// certain that it leads.
func checkElection(timing leadership.Timing) error {
	const (
		leaseDuration = "-leader-elect-lease-duration"
		renewDeadline = "-leader-elect-renew-deadline"
		retryPeriod   = "-leader-elect-retry-period"
	)
	for _, setting := range []struct {
		flag  string
		value time.Duration
	}{{leaseDuration, timing.LeaseDuration}, {renewDeadline, timing.RenewDeadline}, {retryPeriod, timing.RetryPeriod}} {
		switch {
		case setting.value <= 0:
			return fmt.Errorf("invalid value for flag %s: must be positive", setting.flag)
		case setting.value > longestElection:
			return fmt.Errorf("invalid value for flag %s: must be at most %v", setting.flag, longestElection)
		}
	}
	// client-go renews a Lease after at most JitterFactor times the retry period.
	apart := time.Duration(clientelection.JitterFactor * float64(timing.RetryPeriod))
	switch {
	case timing.RetryPeriod < shortestRetry:
		return fmt.Errorf("invalid value for flag %s: must be at least %v, to spare the API server", retryPeriod, shortestRetry)
	case timing.LeaseDuration%time.Second != 0:
		return fmt.Errorf("invalid value for flag %s: must be whole seconds, because a Lease stores whole seconds",
			leaseDuration)
	case timing.RenewDeadline <= apart:
		return fmt.Errorf("invalid value for flag %s: must be more than %v, which is 1.2 times %s; "+
			"raise this flag or lower the other",
			renewDeadline, apart, retryPeriod)
	case timing.LeaseDuration <= timing.RenewDeadline:
		return fmt.Errorf("invalid value for flag %s: must be more than %v, which is %s; "+
			"raise this flag or lower the other",
			leaseDuration, timing.RenewDeadline, renewDeadline)
	case timing.Certain() <= apart:
		return fmt.Errorf("invalid value for flag %s: must be at least %v with a %s of %v, "+
			"because requests to create Jobs must end before another replica can become leader; "+
			"raise this flag or lower the other",
			leaseDuration, leadership.ShortestLease(apart), retryPeriod, timing.RetryPeriod)
	}
	return nil
}

// newLease returns the Lease for leader election; nil if leader election is disabled.
func newLease(cluster *rest.Config, options options) (*leadership.Lease, error) {
	// NewResourceLock sets a timeout in the configuration that it gets, which would end each watch.
	lock, err := leaderelection.NewResourceLock(rest.CopyConfig(cluster), discardEvents{}, leaderelection.Options{
		LeaderElection:          options.leaderElect,
		LeaderElectionID:        options.leaderElectionID,
		LeaderElectionNamespace: options.leaderElectionNamespace,
		RenewDeadline:           options.election.RenewDeadline,
	})
	if err != nil || lock == nil {
		return nil, err
	}
	return leadership.NewLease(lock, options.election), nil
}

// discardEvents provides event recorders that drop all events: the Lease itself shows the leader.
type discardEvents struct{ recorder.Provider }

func (discardEvents) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// electBy configures the manager to elect its leader with the Lease.
func electBy(lease *leadership.Lease, timing leadership.Timing, options *ctrl.Options) {
	if lease == nil {
		return
	}
	options.LeaderElection, options.LeaderElectionResourceLockInterface = true, lease
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration = &timing.LeaseDuration
	options.RenewDeadline = &timing.RenewDeadline
	options.RetryPeriod = &timing.RetryPeriod
}
