// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// document is the page with the tables of metrics. With -update, the test writes them.
const document = "../../docs/metrics.md"

var update = flag.Bool("update", false, "write the tables of docs/metrics.md")

// gatherAll returns all metrics of the operator, each with at least one series.
func gatherAll(g Gomega) []*dto.MetricFamily {
	all, registry := newMetrics()
	all.Process(registry, "v1.0.0", func() bool { return true })
	all.Observe(emails, full("q"))
	all.Created(emails, "q", time.Second)
	all.Finished(emails, true)
	all.Parked("mail", 1)
	all.Received("redis")()
	all.Subscribed("redis", 0, true)
	all.Tracked("redis", 0, true)
	all.Invalidated("redis")()
	all.Ended("redis", "EOF")
	all.Connections(func() map[string]int { return map[string]int{"redis": 3} })
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
	return families
}

// table returns the rows of the metrics with the label, or without any of the labels if it is empty.
func table(families []*dto.MetricFamily, label string, others ...string) string {
	var rows strings.Builder
	rows.WriteString("| metric | type | own labels | meaning |\n|---|---|---|---|\n")
	for _, family := range families {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if label != "" && !slices.Contains(labels, label) || label == "" && slices.ContainsFunc(others, func(other string) bool {
			return slices.Contains(labels, other)
		}) {
			continue
		}
		own := slices.DeleteFunc(labels, func(name string) bool {
			return name == label || label == "scaledjob" && (name == "namespace" || name == "queue")
		})
		for i := range own {
			own[i] = "`" + own[i] + "`"
		}
		kind := strings.ToLower(family.GetType().String())
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", family.GetName(), kind, strings.Join(own, ", "), family.GetHelp())
	}
	return rows.String()
}

// The tables of the page say what the metrics say of themselves.
func TestTheDocumentHasAllMetrics(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content, err := os.ReadFile(document)
	g.Expect(err).NotTo(HaveOccurred())
	families := gatherAll(g)
	text := string(content)
	for name, rows := range map[string]string{
		"ScaledJobs":    table(families, "scaledjob"),
		"Redis servers": table(families, "endpoint"),
		"The operator":  table(families, "", "scaledjob", "endpoint"),
	} {
		before, rest, found := strings.Cut(text, "\n## "+name+"\n")
		g.Expect(found).To(BeTrue(), name)
		intro, rest, _ := strings.Cut(rest, "| metric |")
		end := strings.Index(rest, "\n\n")
		g.Expect(end).To(BeNumerically(">", 0), name)
		text = before + "\n## " + name + "\n" + intro + rows + rest[end+1:]
	}
	if *update {
		g.Expect(os.WriteFile(document, []byte(text), 0o600)).To(Succeed())
		return
	}
	g.Expect(string(content)).To(Equal(text), "make generate writes it")
}

// The page says how many series a ScaledJob has at most.
func TestSeriesOfAScaledJobAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	metrics, registry := newMetrics()
	sample := full("q")
	for i := range 7 {
		sample.Conditions = append(sample.Conditions[:i], Condition{fmt.Sprint("Condition", i), "True", "Reason"})
	}
	for _, by := range []string{"", "quota", "change", "permissions", "admission policy", "admission webhook"} {
		sample.RefusedBy = by
		metrics.Observe(emails, sample)
	}
	metrics.Created(emails, "q", time.Second)
	metrics.Finished(emails, true)
	metrics.Finished(emails, false)
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var count int
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) < 3 {
				continue
			}
			count++
			if histogram := metric.GetHistogram(); histogram != nil {
				count += len(histogram.GetBucket()) + 2 // +Inf, _sum and _count, which is counted already.
			}
		}
	}
	content, err := os.ReadFile(document)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(ContainSubstring(fmt.Sprintf("at most %d series, and three for each of its keys", count-3)))
}
