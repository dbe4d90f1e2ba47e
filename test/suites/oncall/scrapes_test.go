// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oncall

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	prometheuskit "miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// Whoever may not read the metrics sees an operator that is down, with the reason, and the alert says so. The operator
// goes on.
func TestScrapesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSecureStage(t)
	nobody := s.scrape("")
	forbidden := s.scrape(s.token("forbidden", false))
	reader := s.scrape(s.token("reader", true))

	s.Eventually(refusal(t, nobody)).Should(ConsistOf(ContainSubstring("401 Unauthorized")))
	s.Eventually(refusal(t, forbidden)).Should(ConsistOf(ContainSubstring("403 Forbidden")))
	s.Eventually(up(t, reader)).Should(ConsistOf(1.0))
	for _, refused := range []*prometheuskit.Prometheus{nobody, forbidden} {
		s.Expect(up(t, refused)()).To(ConsistOf(0.0))
		s.Eventually(func() ([]string, error) {
			return firing(t.Context(), refused, func(map[string]string) bool { return true })
		}).Should(ConsistOf("ScaledJobOperatorWithoutLeader"))
		s.Expect(refused.Query(t.Context(), `count({__name__=~"scaledjob_.+"})`)).To(BeEmpty(), "nothing is given away")
	}
	s.expectWork(reader)
}

// Names as long as they may be, and keys with all kinds of characters, are labels that Prometheus reads, in both
// formats.
func TestStrangeNamesAreLabels(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	keys := []string{
		`"quoted"`, "two\nlines\r\n", `back\slash\n`, "{a=\"b\"} 1\n# TYPE scaledjob_active_jobs counter", "\x00\x1b[31m\u2028\u202e",
		"\ufffd\U0001f4a5é", strings.Repeat("k", 1024), strings.Repeat("\n", 1024),
	}
	for i, key := range keys {
		name := fmt.Sprint("strange-", i)
		name += strings.Repeat("x", 63-len(name))
		other := s.Neighbour(name, key)
		s.Expect(other.Create(t.Context(), sjtest.AtMost(1))).To(Succeed())
		s.Expect(other.Push(t.Context(), i+1)).To(Succeed())
	}
	for format, scraping := range map[string]*prometheuskit.Prometheus{"text": classic, "protobuf": prometheus} {
		s.Eventually(func(g Gomega) {
			samples := must.Get(scraping.Query(t.Context(), fmt.Sprintf(`scaledjob_queue_depth{namespace=%q}`, s.Namespace)))(g)
			g.Expect(samples).To(HaveLen(len(keys)))
			labels := map[string]bool{}
			for _, sample := range samples {
				g.Expect(sample.Labels["scaledjob"]).To(HavePrefix(fmt.Sprintf("strange-%d", int(sample.Value)-1)))
				labels[sample.Labels["queue"]] = true
			}
			g.Expect(labels).To(HaveLen(len(keys)), "each key has its own label")
			g.Expect(labels).To(And(HaveKey(`"quoted"`), HaveKey(`two\nlines\r\n`)))
		}).Should(Succeed(), format)
		s.Expect(scraping.Query(t.Context(), "min_over_time(up[1m]) == 0")).To(BeEmpty(), "every scrape was read")
	}
}

// The scrape configuration of the page on monitoring reads the metrics. The suite install tests that it finds the Pods.
func TestScrapeConfigurationOfThePage(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "TestScrapesThatAreRefused scrapes with such settings")
	s := newSecureStage(t)
	page := must.Get(os.ReadFile("../../../docs/how-to/monitor.md"))(s)
	block := regexp.MustCompile("(?s)```yaml\n# prometheus.yml\n(.+?)```").FindSubmatch(page)
	s.Expect(block).To(HaveLen(2))
	var shown struct {
		ScrapeConfigs []map[string]any `json:"scrape_configs"`
	}
	s.Expect(yaml.UnmarshalStrict(block[1], &shown)).To(Succeed())
	s.Expect(shown.ScrapeConfigs).To(HaveLen(1))

	settings, token := shown.ScrapeConfigs[0], filepath.Join(t.TempDir(), "token")
	s.Expect(os.WriteFile(token, []byte(s.token("reader", true)), 0o600)).To(Succeed())
	s.Expect(settings["authorization"]).To(HaveKeyWithValue("credentials_file", Not(BeEmpty())))
	settings["authorization"] = map[string]any{"credentials_file": token}
	for _, inACluster := range []string{"kubernetes_sd_configs", "relabel_configs"} {
		s.Expect(settings).To(HaveKey(inACluster))
		delete(settings, inACluster)
	}
	scraping := s.scrapeWith(settings)
	s.Eventually(up(t, scraping)).Should(ConsistOf(1.0))
	s.expectWork(scraping)
}

// newSecureStage is a stage with an operator of its own, which serves its metrics by HTTPS.
func newSecureStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.Operator = operator.New(t, operator.Options{
		Cluster: shared.Cluster, Args: []string{"--metrics-secure=true", "--watch-namespaces=" + s.Namespace},
	})
	s.create()
	return s
}

// expectWork has a message come, and a Job that the operator of the stage counts.
func (s *stage) expectWork(seenBy *prometheuskit.Prometheus) {
	s.t.Helper()
	s.Push(1)
	s.Eventually(func() ([]prometheuskit.Sample, error) {
		return seenBy.Query(s.t.Context(), fmt.Sprintf("scaledjob_active_jobs{namespace=%q} == 1", s.Namespace))
	}).Should(HaveLen(1))
}

// token makes a ServiceAccount, which may read the metrics or not, and returns a token of it.
func (s *stage) token(name string, mayRead bool) string {
	s.t.Helper()
	account := metav1.ObjectMeta{Namespace: s.Namespace, Name: name}
	s.Expect(s.API.Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: account})).To(Succeed())
	if mayRead {
		s.Expect(s.API.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scaledjob-operator-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: name}},
		})).To(Succeed())
	}
	config := must.Get(shared.Cluster.ServiceAccountConfig(s.t.Context(), s.Namespace, name))(s)
	return config.BearerToken
}

// scrape has a Prometheus with this token, which trusts any server, scrape the operator.
func (s *stage) scrape(token string) *prometheuskit.Prometheus {
	s.t.Helper()
	settings := map[string]any{"scheme": "https", "tls_config": map[string]any{"insecure_skip_verify": true}}
	if token != "" {
		settings["authorization"] = map[string]any{"credentials": token}
	}
	return s.scrapeWith(settings)
}

// scrapeWith has a Prometheus with these settings scrape the operator.
func (s *stage) scrapeWith(settings map[string]any) *prometheuskit.Prometheus {
	s.t.Helper()
	scraping := must.Get(watchWith(s.t.Context(), prometheuskit.Options{Scrape: settings}, s.Operator))(s)
	s.t.Cleanup(func() { s.Expect(scraping.Stop(context.WithoutCancel(s.t.Context()))).To(Succeed()) })
	return scraping
}

// refusal is why the last scrapes have failed.
func refusal(t *testing.T, of *prometheuskit.Prometheus) func() ([]string, error) {
	t.Helper()
	return func() ([]string, error) { return of.ScrapeErrors(t.Context()) }
}

// up is whether the last scrapes have succeeded.
func up(t *testing.T, in *prometheuskit.Prometheus) func() ([]float64, error) {
	t.Helper()
	return func() ([]float64, error) {
		samples, err := in.Query(t.Context(), "up")
		values := make([]float64, len(samples))
		for i, sample := range samples {
			values[i] = sample.Value
		}
		return values, err
	}
}
