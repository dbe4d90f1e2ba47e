// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

func TestBurst(t *testing.T) {
	t.Parallel()
	const messages = 1000
	s, proxy := newSingle(t, "bursting", messages)
	proxy.lag(longLag)

	s.PushTogether(messages)
	requireExactly(t, s.Operator, jobwatch.Row{
		Fault: "a burst of 1,000, watches 0.5 s late", Promise: "no Job is created twice",
	}, want{scaledJob: s, jobs: messages})
}

// The operator of this test would take the ScaledJobs of all others for its own, so that it is not parallel to any.
func TestStormWatchingAllNamespaces(t *testing.T) {
	weatherStorm(t, "all namespaces", nil, [3]string{newNamespace(t), newNamespace(t), newNamespace(t)})
}

// Here Redis tracks the keys instead of sending notifications.
func TestStormWatchingTwoNamespaces(t *testing.T) {
	skip.UnderShort(t, "TestStormWatchingAllNamespaces is the same storm; internal/jobcontrol tests several caches")
	t.Parallel()
	first, second := newNamespace(t), newNamespace(t)
	changes := []sjtest.Change{sjtest.Tracking}
	weatherStorm(t, "two namespaces, keys tracked", changes, [3]string{first, second, first}, first, second)
}

// weatherStorm has an operator meet a storm. There are three ScaledJobs, in these namespaces: one that is at its limit
// from the first moment, one that grows step by step, and one whose slots are freed at random.
func weatherStorm(t *testing.T, scope string, changes []sjtest.Change, namespaces [3]string, watched ...string) {
	t.Helper()
	g := NewWithT(t)
	proxy := startProxy(t)
	operator := startOperator(t, proxy, watched)
	capped := newScaledJob(t, namespaces[0], "capped", 1, 10, changes...)
	growing := newScaledJob(t, namespaces[1], "growing", 40, 100, changes...)
	worked := newScaledJob(t, namespaces[2], "worked", 1, 10, changes...)
	for _, s := range []*scaledJob{capped, growing, worked} {
		s.AwaitSubscription()
	}
	proxy.lag(longLag)

	finished := stormAndWorkBeside(t, worked, capped, growing)
	g.Expect(finished).To(BeNumerically(">", 0), "finished Jobs")

	requireExactly(t, operator, jobwatch.Row{
		Fault:   "storm, watches 0.5 s late, watching " + scope,
		Promise: "no Job is created twice, and freed slots are filled",
	},
		want{scaledJob: capped, jobs: 10},
		want{scaledJob: growing, jobs: stormPushes / 40},
		want{scaledJob: worked, jobs: 10 + finished})
}
