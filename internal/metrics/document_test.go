// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// document is the page with the tables of metrics. With -update, the test writes them.
const document = "../../docs/reference/metrics.md"

var update = flag.Bool("update", false, "write the tables of docs/reference/metrics.md")

// gatherAll returns all metrics of the operator, each with at least one series.
func gatherAll(all *collected) []*dto.MetricFamily {
	all.Process(all.registry, "v1.0.0", func() bool { return true })
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
	families := must.Get(all.registry.Gather())(all)
	problems := must.Get(promlint.NewWithMetricFamilies(families).Lint())(all)
	all.Expect(problems).To(BeEmpty())
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
	g := newMetrics(t)
	content := must.Get(os.ReadFile(document))(g)
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
	m := newMetrics(t)
	sample := full("q")
	sample.Conditions = nil
	conditions := constants(m, "../../api/v1/condition_types.go", `(?m)^\tCondition\w+ += "(\w+)"$`)
	for _, kind := range conditions {
		sample.Conditions = append(sample.Conditions, Condition{kind, "True", "Reason"})
	}
	refusing := constants(m, "../admission/admission.go", `(?m)^\tBy\w+ +By = "(.*)"$`)
	for _, by := range refusing {
		sample.RefusedBy = cmp.Or(by, "API server")
		m.Observe(emails, sample)
	}
	m.Created(emails, "q", time.Second)
	m.Finished(emails, true)
	m.Finished(emails, false)
	families := must.Get(m.registry.Gather())(m)
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
	content := must.Get(os.ReadFile(document))(m)
	m.Expect(strings.Join(strings.Fields(string(content)), " ")).To(And(
		ContainSubstring("at most %d series, and three for each of its keys", count-3),
		ContainSubstring("at most %d conditions, %d for refused creates", len(conditions), len(refusing)),
	))
}

// constants returns the values of the constants in a file that the pattern finds.
func constants(g Gomega, path, pattern string) (values []string) {
	content := must.Get(os.ReadFile(path))(g)
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(content), -1) {
		values = append(values, found[1])
	}
	g.Expect(values).NotTo(BeEmpty())
	return values
}
