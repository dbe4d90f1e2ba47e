// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboards asks a real Prometheus for what the dashboards of config/grafana show. It scrapes the real
// operator and its standby, whose ScaledJobs are in all kinds of situations. No Pod runs.
//
// The suite can't run where Prometheus is neither in the cache folder nor can be compiled.
package dashboards

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/dashboards"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
)

// mayBeEmpty are parts of the queries that have no series here, with the reason.
var mayBeEmpty = map[string]string{
	"min(scaledjob_certificate_expiry_timestamp_seconds{": "no ScaledJob uses TLS",
	"max by (namespace) (scaledjob_reconciles_parked{":    "no namespace has more reconciles than its share of the workers",
}

// A panel without data is a query with a mistake, whichever of the two kinds of histograms Prometheus keeps.
func TestEveryQueryIsAnswered(t *testing.T) {
	t.Parallel()
	for name, scraping := range map[string]*prometheus.Prometheus{"classic histograms": stage.classic, "native histograms": stage.native} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			queries := read(g)
			g.Eventually(func() ([]dashboards.Query, error) { return unanswered(t, scraping, queries) }).Should(HaveEach(Satisfy(isException)))
			g.Expect(unanswered(t, scraping, queries)).To(HaveLen(len(mayBeEmpty)), "there is no exception without need")
		})
	}
}

// While the lead moves, two replicas have the same series. Here one Prometheus scrapes the leader twice.
func TestWhatTwoReplicasHaveCountsOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, query := range read(g) {
		// Two replicas count their own work, and use memory of their own. Times go by between two queries.
		if query.Dashboard == "operator" || strings.Contains(query.Expr, "rate(") || strings.Contains(query.Expr, "time()") || isException(query) {
			continue
		}
		g.Eventually(func(g Gomega) {
			once := must.Get(answers(t, stage.classic, query))(g)
			g.Expect(once).NotTo(BeEmpty())
			g.Expect(answers(t, stage.doubled, query)).To(Equal(once))
		}).Should(Succeed(), "%v", query)
	}
}

func TestTheOverviewHasTheRightNumbers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for panel, value := range map[string]float64{
		"ScaledJobs": float64(len(stage.scaledJobs)), "Not Ready": 2, "Outstanding messages": 8, "Active Jobs": 4, "Leaders": 1, "Replicas": 2,
		"Servers without notifications": 1,
		"Limited":                       2,
	} {
		queries := read(g)
		i := slices.IndexFunc(queries, func(query dashboards.Query) bool { return query.Panel == panel && query.Dashboard != "scaledjob" })
		g.Expect(i).To(BeNumerically(">=", 0), panel)
		g.Eventually(func() ([]string, error) { return answers(t, stage.classic, queries[i]) }).
			Should(ConsistOf(HaveSuffix(fmt.Sprintf(" %v", value))), panel)
	}
}

// unanswered are the queries without a series.
func unanswered(t *testing.T, scraping *prometheus.Prometheus, queries []dashboards.Query) ([]dashboards.Query, error) {
	t.Helper()
	var all []dashboards.Query
	for _, query := range queries {
		series, err := answers(t, scraping, query)
		if err != nil {
			return nil, err
		}
		if len(series) == 0 {
			all = append(all, query)
		}
	}
	return all, nil
}

func read(g *WithT) []dashboards.Query {
	return must.Get(dashboards.Read("../../../../config/grafana"))(g)
}

// answers are the series of a query, for any ScaledJob if it is about one.
func answers(t *testing.T, scraping *prometheus.Prometheus, query dashboards.Query) ([]string, error) {
	t.Helper()
	var all []string
	for _, each := range stage.scaledJobs {
		values := map[string]string{"namespace": each.Namespace, "scaledjob": each.Name, "job": prometheus.Job, "__rate_interval": "5m"}
		if query.Dashboard != "scaledjob" {
			values["namespace"] = ".*"
		}
		samples, err := scraping.Query(t.Context(), query.Fill(values))
		if err != nil {
			return nil, fmt.Errorf("%v: %w", query, err)
		}
		for _, sample := range samples {
			all = append(all, fmt.Sprintf("%v %v", sample.Labels, sample.Value))
		}
		if query.Dashboard != "scaledjob" {
			break
		}
	}
	slices.Sort(all)
	return all, nil
}

// isException reports whether there may be no answer.
func isException(query dashboards.Query) bool {
	for part := range mayBeEmpty {
		if strings.HasPrefix(query.Expr, part) {
			return true
		}
	}
	return false
}
