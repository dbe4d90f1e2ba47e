// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/dashboards"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// othersMetrics are those of the libraries of the operator that the dashboards use.
var othersMetrics = []string{
	"controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles", "controller_runtime_reconcile_time_seconds",
	"controller_runtime_reconcile_total", "rest_client_requests_total", "workqueue_depth", "workqueue_queue_duration_seconds",
	"go_gc_duration_seconds", "go_gc_gomemlimit_bytes", "go_goroutines", "process_cpu_seconds_total", "process_resident_memory_bytes",
	"process_start_time_seconds",
}

// What a dashboard asks for under a name that no metric has is an empty panel.
func TestDashboardsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	queries := must.Get(dashboards.Read(filepath.Join(root, "config/grafana")))(g)
	existing := append(all("(?m)^\\| `(scaledjob_\\w+)` \\|", read(t, "docs/reference/metrics.md")), othersMetrics...)
	var used []string
	for _, query := range queries {
		names := metricsIn(query.Expr)
		g.Expect(names).NotTo(BeEmpty(), query.Expr)
		for _, name := range names {
			used = append(used, strings.TrimSuffix(name, "_bucket"))
			g.Expect(existing).To(ContainElement(used[len(used)-1]), "%s: %s", query.Dashboard, query.Panel)
		}
	}
	for _, name := range othersMetrics {
		g.Expect(used).To(ContainElement(name), "it is listed without need")
	}
}

func TestTheMetricsOfAQuery(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(metricsIn(`1e15 * sum by (le, pod) (rate(a_total{job=~"$b",c!="d"}[$__rate_interval])) or time() - (e) unless on (f) g{h="}"} == 1`)).
		To(Equal([]string{"a_total", "e", "g"}))
}

var (
	// notMetrics are the parts of a query in which names are not those of metrics: texts, selectors, ranges and lists of
	// labels.
	notMetrics = regexp.MustCompile(`"[^"]*"|\{(?:[^"}]|"[^"]*")*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right) *\([^)]*\)`)
	operators  = []string{"and", "bool", "or", "unless"}
)

// metricsIn are the names of metrics in a query: all that are neither operators nor functions.
func metricsIn(expression string) []string {
	var names []string
	text := notMetrics.ReplaceAllString(expression, " ")
	for _, match := range regexp.MustCompile(`\b[a-zA-Z_]\w*\b *\(?`).FindAllString(text, -1) {
		name := strings.TrimRight(match, " ")
		if !strings.HasSuffix(name, "(") && !slices.Contains(operators, name) {
			names = append(names, name)
		}
	}
	return names
}
