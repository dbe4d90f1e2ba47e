// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules tests the alerts of config/prometheus/rules.yaml with promtool. cases_test.go has when each of them
// fires, and when it does not.
package rules

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
)

const path = "../../../../config/prometheus/rules.yaml"

var promtool prometheus.Program

func TestMain(m *testing.M) {
	os.Exit(cluster.Run(m, 0, func(ctx context.Context) (err error) {
		promtool, err = prometheus.Build(ctx, os.Stderr)
		return err
	}, func(context.Context) error { return nil }))
}

// rule is a rule of the file.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	file        string            // with this alert only, and with what it is made of
}

// groups are a file of rules.
type groups struct {
	Groups []group `json:"groups"`
}

type group struct {
	Name  string           `json:"name"`
	Rules []map[string]any `json:"rules"`
}

// alerts are those of the file, by name.
func alerts(t *testing.T) map[string]rule {
	t.Helper()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(path))(g)
	var all groups
	g.Expect(yaml.Unmarshal(content, &all)).To(Succeed())
	found := map[string]rule{}
	for _, its := range all.Groups {
		for _, each := range its.Rules {
			name, isAlert := each["alert"].(string)
			if !isAlert {
				continue
			}
			g.Expect(found).NotTo(HaveKey(name))
			text := must.Get(yaml.Marshal(each))(g)
			made := rule{file: write(t, "rules.yaml", groups{[]group{{its.Name, alone(its.Rules, name)}}})}
			g.Expect(yaml.Unmarshal(text, &made)).To(Succeed())
			found[name] = made
		}
	}
	return found
}

// alone returns the rules of a group without its other alerts. Evaluating all of them takes minutes.
func alone(rules []map[string]any, alert string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(rules), func(each map[string]any) bool {
		return each["alert"] != nil && each["alert"] != alert
	})
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(promtool.Promtool(t.Context(), "check", "rules", "--lint=all", "--lint-fatal", path)).To(Succeed())
}

func TestEachAlertHasItsCases(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := alerts(t)
	g.Expect(slices.Collect(maps.Keys(cases))).To(ConsistOf(slices.Collect(maps.Keys(all))))
	for name, each := range all {
		g.Expect(cases[name].silent).NotTo(BeEmpty(), name)
		g.Expect(each.Labels["severity"]).To(BeElementOf("critical", "warning", "info"), name)
		g.Expect(each.Annotations).To(And(HaveKey("summary"), HaveKey("description"), HaveKey("runbook_url")), name)
		g.Expect(each.For).NotTo(BeEmpty(), name)
	}
}

// A reason that does not exist is never seen.
func TestReasonsExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	constants := must.Get(os.ReadFile("../../../../api/v1/condition_types.go"))(g)
	var found int
	for name, each := range alerts(t) {
		for _, matcher := range regexp.MustCompile(`reason(?:=~|!~|=|!=)"([^"]*)"`).FindAllStringSubmatch(each.Expr, -1) {
			for reason := range strings.SplitSeq(matcher[1], "|") {
				found++
				g.Expect(string(constants)).To(ContainSubstring("= %q\n", reason), name)
			}
		}
	}
	g.Expect(found).To(BeNumerically(">", 10))
}

// An alert about a ScaledJob is silent while that is suspended, and says which one it is about.
func TestAlerts(t *testing.T) {
	t.Parallel()
	all := alerts(t)
	for name, its := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			each := all[name]
			g.Expect(promtool.Promtool(t.Context(), "test", "rules", write(t, "tests.yaml", file{
				RuleFiles: []string{each.file}, Tests: its.tests(g, each),
			}))).To(Succeed())
		})
	}
}

// The tests above are worth something only if promtool sees that an alert fires, or does not.
func TestPromtoolSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const name = "ScaledJobAtMaximum"
	its, each := cases[name], alerts(t)[name]
	missing := its.test(each, "does not fire", its.fires, []map[string]any{its.alert(each)})
	missing.InputSeries = missing.InputSeries[:0]
	for _, wrong := range []test{missing, its.test(each, "fires", its.fires, nil)} {
		err := promtool.Promtool(t.Context(), "test", "rules", write(t, "tests.yaml", file{
			RuleFiles: []string{each.file}, Tests: []test{wrong},
		}))
		g.Expect(err).To(MatchError(ContainSubstring("FAILED")), wrong.Name)
	}
}

// file is a file of tests, as promtool reads it.
type file struct {
	RuleFiles []string `json:"rule_files"`
	Tests     []test   `json:"tests"`
}

type test struct {
	Name          string              `json:"name"`
	Interval      string              `json:"interval"`
	InputSeries   []map[string]string `json:"input_series"`
	AlertRuleTest []map[string]any    `json:"alert_rule_test"`
}

// tests are those of an alert: that it fires; and that it does not before its time, in the other cases, and while the
// ScaledJob is suspended. All is the same if two replicas are scraped, which -short only tries where it fires.
func (c alertCase) tests(g Gomega, each rule) []test {
	tests := []test{c.early(g, each)}
	add := func(name string, change map[string]string, expected []map[string]any) {
		series := changed(g, c.fires, change)
		tests = append(tests, c.test(each, name, series, expected))
		if !c.eachReplica && (name == "fires" || !testing.Short()) {
			tests = append(tests, c.test(each, name+", two replicas", twice(series), expected))
		}
	}
	fires := []map[string]any{c.alert(each)}
	add("fires", nil, fires)
	if _, isAboutOne := c.labels["scaledjob"]; isAboutOne {
		add("suspended", map[string]string{of("scaledjob_suspend"): one}, nil)
	}
	for why, change := range c.silent {
		add(why, change, nil)
	}
	for why, change := range c.also {
		add(why, change, fires)
	}
	for _, other := range c.others {
		tests = append(tests, other.tests(g, each)...)
	}
	return tests
}

// early is the test that an alert does not fire before its time, although its expression has always been true.
func (c alertCase) early(g Gomega, each rule) test {
	wait := must.Get(time.ParseDuration(each.For))(g)
	early := c.test(each, "before its time", c.fires, nil)
	early.AlertRuleTest[0]["eval_time"] = (wait - time.Minute).String()
	return early
}

func (c alertCase) test(each rule, name string, series map[string]string, expected []map[string]any) test {
	made := test{Name: name, Interval: "1m", AlertRuleTest: []map[string]any{{
		"alertname": each.Alert, "eval_time": "3h", "exp_alerts": expected,
	}}}
	for _, name := range slices.Sorted(maps.Keys(series)) {
		made.InputSeries = append(made.InputSeries, map[string]string{"series": name, "values": series[name]})
	}
	return made
}

// alert is the alert as it must be.
func (c alertCase) alert(each rule) map[string]any {
	labels := maps.Clone(c.labels)
	maps.Copy(labels, each.Labels)
	return map[string]any{"exp_labels": labels, "exp_annotations": map[string]string{
		"summary": each.Annotations["summary"], "runbook_url": each.Annotations["runbook_url"], "description": c.description,
	}}
}

// changed returns series of which some have other values, or none, and further ones.
func changed(g Gomega, series, change map[string]string) map[string]string {
	all := maps.Clone(series)
	maps.Copy(all, change)
	for name, values := range change {
		if values == none {
			g.Expect(series).To(HaveKey(name), "there is nothing to leave out")
			delete(all, name)
		}
	}
	return all
}

// twice returns the series of a second replica too, unless it has others.
func twice(series map[string]string) map[string]string {
	all := maps.Clone(series)
	for name, values := range series {
		if other := strings.Replace(name, `instance="a"`, `instance="b"`, 1); all[other] == "" {
			all[other] = values
		}
	}
	return all
}

// write writes a file and returns its path.
func write(t *testing.T, name string, content any) string {
	t.Helper()
	g := NewWithT(t)
	text := must.Get(yaml.Marshal(content))(g)
	path := filepath.Join(t.TempDir(), name)
	g.Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return path
}
