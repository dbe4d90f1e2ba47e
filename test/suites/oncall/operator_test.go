// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oncall

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	prometheuskit "miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// aboutTheOperator are the alerts of TestAlertsAboutTheOperator.
var aboutTheOperator = []string{"ScaledJobOperatorMemory", "ScaledJobOperatorWithoutLeader"}

// Each alert is made to fire.
func TestNoAlertIsLeftOut(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rules := must.Get(os.ReadFile(rulesFile))(g)
	made := slices.Clone(aboutTheOperator)
	for _, each := range faults {
		made = append(made, each.alert)
	}
	for _, alert := range regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1) {
		g.Expect(made).To(ContainElement(alert[1]))
	}
}

// Nothing fires for a ScaledJob whose Job runs, nor for one that is suspended while messages wait, nor for an operator
// with a standby.
func TestNothingFiresWhenAllIsWell(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "package rules has what each alert is silent about")
	s := newStage(t)
	s.create()
	s.AwaitSubscription()
	s.Push(1)
	s.awaitReady(1)
	s.Eventually(s.firing).Should(BeEmpty())
	s.Consistently(s.firing).Should(BeEmpty())
	s.Update(suspended(true))
	s.Push(5)
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(6))))
	s.Consistently(s.firing).Should(BeEmpty(), "it is suspended")
	s.Eventually(func() ([]prometheuskit.Sample, error) {
		return prometheus.Query(t.Context(), `sum(scaledjob_leader) == 1 and count(scaledjob_leader) == 2`)
	}).Should(HaveLen(1))
	s.Eventually(func() ([]string, error) {
		return firing(t.Context(), prometheus, func(labels map[string]string) bool { return slices.Contains(aboutTheOperator, labels["alertname"]) })
	}).Should(BeEmpty())
}

// An operator with hardly any memory, which is then stopped; its standby can't lead, because somebody else holds the
// Lease.
func TestAlertsAboutTheOperator(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "TestAlertsFire has one of the alerts")
	g := NewWithT(t)
	namespace := shared.Cluster.NewNamespace(t, "oncall")
	own := "--watch-namespaces=" + namespace
	leads := operator.New(t, operator.Options{Cluster: shared.Cluster, MemoryLimit: "10MiB", Args: []string{own}})
	waits := operator.New(t, operator.Options{Cluster: shared.Cluster, Args: []string{
		own, "--leader-elect", "--leader-election-namespace=" + operator.Namespace, // The leader of the other tests has this Lease.
	}})
	watching := must.Get(watch(t.Context(), false, leads, waits))(g)
	t.Cleanup(func() { g.Expect(watching.Stop(context.WithoutCancel(t.Context()))).To(Succeed()) })
	alerts := func() ([]string, error) {
		return firing(t.Context(), watching, func(map[string]string) bool { return true })
	}

	g.Eventually(alerts).Should(ConsistOf("ScaledJobOperatorMemory"))
	g.Consistently(alerts).Should(ConsistOf("ScaledJobOperatorMemory"), "one replica leads")
	g.Expect(leads.Stop(t.Context())).To(Succeed())
	g.Eventually(alerts).Should(ConsistOf("ScaledJobOperatorWithoutLeader"))
	g.Expect(waits.Stop(t.Context())).To(Succeed())
	g.Eventually(func() ([]string, error) {
		return firing(t.Context(), watching, func(labels map[string]string) bool { return labels["job"] == "" })
	}).Should(ConsistOf("ScaledJobOperatorWithoutLeader"), "no replica is reached")
}

// What the rules say of classic histograms is about a bucket that the operator has.
func TestTheBucketOfASecondExists(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "package rules has made-up buckets")
	s := newStage(t)
	s.create()
	s.AwaitSubscription()
	s.AwaitQuiet(time.Second) // The read after the subscription would find the message, which is no reaction to a notification.
	s.Push(1)
	within := func(in *prometheuskit.Prometheus, expression string) func() ([]prometheuskit.Sample, error) {
		return func() ([]prometheuskit.Sample, error) {
			return in.Query(t.Context(), fmt.Sprintf(expression, `namespace="`+s.Namespace+`"`))
		}
	}
	one := ConsistOf(HaveField("Value", 1.0))
	s.Eventually(within(classic, `sum(scaledjob_event_to_create_seconds_bucket{%s,le=~"1|1[.]0"})`)).Should(one)
	s.Eventually(within(prometheus, `histogram_count(sum(scaledjob_event_to_create_seconds{%s}))`)).Should(one)
}
