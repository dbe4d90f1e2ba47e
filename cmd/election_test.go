// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"miracle.dev/scaledjob-operator/internal/leadership"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestCheckElection(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	type row struct {
		lease, deadline, retry time.Duration
		says                   string // empty if the timing is accepted
	}
	bubble.Each(t, map[string]row{
		"default":           {15 * s, 10 * s, 2 * s, ""},
		"that of OpenShift": {137 * s, 107 * s, 26 * s, ""},
		"short":             {6 * s, 5 * s, 500 * ms, ""},
		"just long enough":  {8 * s, 7 * s, 2*s + 499*ms, ""},
		"nearly as long":    {30 * s, 29 * s, 2 * s, ""},

		"lease too long": {2 * time.Hour, 10 * s, 2 * s, "-leader-elect-lease-duration: must be at most 1h0m0s"},
		"retried always": {15 * s, 10 * s, ms, "-leader-elect-retry-period: must be at least 100ms"},
		"no lease":       {0, 10 * s, 2 * s, "-leader-elect-lease-duration: must be positive"},
		"no deadline":    {15 * s, 0, 2 * s, "-leader-elect-renew-deadline: must be positive"},
		"negative retry": {15 * s, 10 * s, -s, "-leader-elect-retry-period: must be positive"},
		"fractions":      {15*s + 500*ms, 10 * s, 2 * s, "-leader-elect-lease-duration: must be whole seconds"},
		"deadline is due with the second try": {
			15 * s, 2400 * ms, 2 * s,
			"-leader-elect-renew-deadline: must be more than 2.4s, which is 1.2 times -leader-elect-retry-period; " +
				"raise this flag or lower the other",
		},
		"deadline is that of the lease": {
			15 * s, 15 * s, 2 * s,
			"-leader-elect-lease-duration: must be more than 15s, which is -leader-elect-renew-deadline; " +
				"raise this flag or lower the other",
		},
		"short lease": {5 * s, 3 * s, s, ""},
		"lease too short for a create": {
			2 * s, 1 * s, 500 * ms,
			"-leader-elect-lease-duration: must be at least 3s with a -leader-elect-retry-period of 500ms, " +
				"because requests to create Jobs must end before",
		},
		"lease too short for a create and a renewal": {
			5 * s, 4 * s, 2 * s,
			"-leader-elect-lease-duration: must be at least 6s",
		},
		"lease longer by nothing": {7 * s, 6 * s, 2500 * ms, "must be at least 8s"},
	}, func(_ *testing.T, g Gomega, c row) {
		timing := leadership.Timing{LeaseDuration: c.lease, RenewDeadline: c.deadline, RetryPeriod: c.retry}
		err := checkElection(timing)
		if c.says != "" {
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(timing.Certain()).To(BeNumerically(">", c.retry))
		g.Expect(timing.Certain() + min(leadership.LongestCreate, c.lease/2)).To(BeNumerically("<", c.lease))
	})
}

// The minimum in the error text is accepted, and one second less is not.
func TestTheMinimumThatIsToldIsOne(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for retry := shortestRetry; retry < 10*time.Second; retry += 50 * time.Millisecond {
		timing := leadership.Timing{RenewDeadline: retry*6/5 + 1, RetryPeriod: retry}
		for timing.LeaseDuration = time.Second; checkElection(timing) != nil; timing.LeaseDuration += time.Second {
			continue
		}
		timing.LeaseDuration -= time.Second
		if timing.LeaseDuration > timing.RenewDeadline {
			least := (timing.LeaseDuration + time.Second).String()
			g.Expect(checkElection(timing)).To(MatchError(ContainSubstring("must be at least " + least)))
		}
	}
}

func TestElectByNobody(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var options ctrl.Options
	electBy(nil, leadership.Timing{}, &options)
	g.Expect(options.LeaderElection).To(BeFalse())
	// A nil *Lease in an interface would not be nil.
	g.Expect(options.LeaderElectionResourceLockInterface).To(BeNil())
}

// A timeout of the configuration would end each watch after this time.
func TestTheElectionLeavesTheConfigurationAsItIs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	options := must.Get(parseOptions([]string{"--leader-elect", "--leader-election-namespace=default"}, io.Discard))(g)
	cluster := &rest.Config{Host: "https://192.0.2.1"}
	lease := must.Get(newLease(cluster, options))(g)
	g.Expect(lease).NotTo(BeNil())
	g.Expect(cluster).To(Equal(&rest.Config{Host: "https://192.0.2.1"}))
}
