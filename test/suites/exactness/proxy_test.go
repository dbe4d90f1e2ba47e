// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"slices"
	"testing"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/inject"
)

const (
	shortLag = 100 * time.Millisecond
	longLag  = 500 * time.Millisecond
	// frozen is a lag that outlives the test.
	frozen = time.Hour
)

// proxy is one that also delays and ends watches.
type proxy struct {
	*inject.Proxy

	jobs, scaledJobs *cluster.Lag
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{jobs: cluster.NewLag("jobs"), scaledJobs: cluster.NewLag("scaledjobs")}
	p.Proxy = inject.NewProxy(t, control.Config(), p.jobs.Wrap, p.scaledJobs.Wrap)
	return p
}

// lag delays the watches of Jobs and ScaledJobs.
func (p *proxy) lag(delay time.Duration) {
	p.jobs.Set(delay)
	p.scaledJobs.Set(delay)
}

// countCreates counts the creates of Jobs from now on.
func (p *proxy) countCreates() *inject.Rule { return p.Add(&inject.Rule{Match: inject.CreatesJob}) }

// holdCreates lets so many creates of Jobs pass, and then holds one of every interval.
func (p *proxy) holdCreates(passing, interval int) *inject.Rule {
	return p.Add(&inject.Rule{Match: inject.CreatesJob, Skip: passing, Every: interval, When: inject.Hold})
}

// expire has the next watch of each of the resources expire, and returns how many have not yet.
func (p *proxy) expire(resources ...string) (left func() int) {
	var rules []*inject.Rule
	for _, resource := range resources {
		rules = append(rules, p.Add(&inject.Rule{Match: inject.WatchOf(resource), Times: 1, Answer: inject.Expired}))
	}
	return func() int {
		return len(slices.DeleteFunc(slices.Clone(rules), func(rule *inject.Rule) bool { return rule.Hits() > 0 }))
	}
}
